"""Results as Parquet: what a repository keeps of runs, without their arrays, and reads back as if it were a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import DataError
from harness.store import connection, papers
from harness.store.ingest import ingest
from harness.store.news import News
from harness.store.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_COUNTED = "with counted as (select * from result where run_key in (select unnest(?::varchar[])))"
_TABLES = {
    "run": ("select run.* from run semi join counted using (run_key)", "run_key"),
    "attempt": ("select attempt.* from attempt semi join counted using (attempt)", "attempt"),
    "metric": ("select metric.* from metric semi join counted using (attempt)", "attempt, name"),
    "environment": ("select environment.* from environment semi join counted using (environment)", "environment"),
    "plugin": ("select plugin.* from plugin semi join counted using (environment)", "environment, distribution"),
}
"""Table -> what is kept of it, and its order: of each run the attempt that counts. Curves, events and files are not."""
_KEYS = {"run": "run_key", "attempt": "attempt", "environment": "environment", "plugin": "environment, distribution"}


class Published(Store):
    """The Parquet files of a folder as a store, with the papers' files; `more` is a store whose runs come on top."""

    def __init__(self, folder: Path, paper_files: Iterable[Path] = (), more: Store | None = None) -> None:
        super().__init__(folder)
        self.papers = list(paper_files)
        self.more = more

    @contextmanager
    def _reading(self) -> Iterator[DuckDBPyConnection]:
        with connection.in_memory() as db:
            for table in _TABLES:
                path = self.results / f"{table}.parquet"
                if path.exists():
                    _load(db, table, path)
            if self.more is not None:
                _add(db, self.more)
            rows, notes = papers.read(self.papers)
            if notes:
                raise DataError("; ".join(notes))
            ingest(db, News(papers=rows))
            yield db

    def write(self, run_keys: Iterable[str], folder: Path) -> None:
        """Write these runs, each by the attempt that counts, as Parquet files; equal runs give equal bytes."""
        import pyarrow.parquet

        keys = sorted(set(run_keys))
        with self.reading() as db:
            found = _rows(db, keys)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for table, rows in found.items():
                pyarrow.parquet.write_table(rows, folder / f"{table}.parquet", compression="zstd")
        except OSError as error:
            raise DataError(f"{folder} cannot be written: {error.strerror or error}") from error


def _rows(db: DuckDBPyConnection, keys: list[str]) -> dict[str, Any]:
    """What is kept of these runs, as Arrow tables."""
    return {
        table: db.sql(f"{_COUNTED} {query} order by {order}", params=[keys]).to_arrow_table()
        for table, (query, order) in _TABLES.items()
    }


def _load(db: DuckDBPyConnection, table: str, path: Path) -> None:
    import pyarrow.parquet

    try:
        db.register("incoming", pyarrow.parquet.read_table(path))
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path} does not read: {error}; restore it, or delete the folder's files") from error
    db.execute(f"insert into {table} by name select * from incoming")  # noqa: S608 - one of the tables above
    db.unregister("incoming")


def _add(db: DuckDBPyConnection, more: Store) -> None:
    """The concluded runs of another store; what both have is in the newer's words."""
    keys = [row["run_key"] for row in more.rows("select run_key from result order by run_key")]
    with more.reading() as other:
        found = _rows(other, keys)
    for table, rows in found.items():
        db.register("incoming", rows)
        if table == "metric":
            db.execute("delete from metric where attempt in (select attempt from incoming)")
        else:
            key = _KEYS[table]
            db.execute(f"delete from {table} where ({key}) in (select ({key}) from incoming)")  # noqa: S608 - named above
        db.execute(f"insert into {table} by name select * from incoming")  # noqa: S608 - named above
        db.unregister("incoming")
