"""Results as Parquet: what a repository keeps of runs, without their arrays, and reads back as if it were a store.

The five files are a set: manifest.json has their checksums, and a set that does not match them is refused. Sets that
earlier versions wrote have no manifest; of those no file may be missing.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.results import papers
from harness.results.store import connection
from harness.results.store.changes import News
from harness.results.store.ingest import ingest
from harness.results.store.store import Store
from harness.system.errors import DataError
from harness.system.files import read_bytes, read_set, write_set

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
MANIFEST = "manifest.json"
_KEYS = {"run": "run_key", "attempt": "attempt", "environment": "environment", "plugin": "environment, distribution"}


class Published(Store):
    """The Parquet files of a folder as a store, with the papers' files; `more` is a store whose runs come on top.

    To read raises `DataError` where the files are not a whole set, or where neither they nor `more` are there.
    """

    def __init__(self, folder: Path, paper_files: Iterable[Path] = (), more: Store | None = None) -> None:
        super().__init__(folder)
        self.papers = list(paper_files)
        self.more = more

    @contextmanager
    def _reading(self) -> Iterator[DuckDBPyConnection]:
        with connection.in_memory() as db:
            for table, content in self._files().items():
                _load(db, table, content, self.results)
            if self.more is not None:
                _add(db, self.more)
            rows, notes = papers.read(self.papers)
            if notes:
                raise DataError("; ".join(notes))
            ingest(db, News(papers=rows))
            yield db

    def write(self, run_keys: Iterable[str], folder: Path) -> None:
        """Write these runs, each by the attempt that counts, as Parquet files; equal runs give equal bytes.

        The caller holds `files.alone(folder)`.
        """
        import pyarrow.parquet

        keys = sorted(set(run_keys))
        with self.reading() as db:
            found = _rows(db, keys)
        contents: dict[str, bytes] = {}
        for table, rows in found.items():
            in_memory = io.BytesIO()
            pyarrow.parquet.write_table(rows, in_memory, compression="zstd")
            contents[_file(table)] = in_memory.getvalue()
        try:
            write_set(folder, contents, MANIFEST)
        except OSError as error:
            raise DataError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error

    def run_keys(self) -> set[str]:
        """The runs in the folder itself."""
        import pyarrow.parquet

        content = self._files().get("run")
        return set(pyarrow.parquet.read_table(io.BytesIO(content))["run_key"].to_pylist()) if content else set()

    def _files(self) -> dict[str, bytes]:
        """The content of each table's file; none where the folder has no set."""
        names = {_file(table): table for table in _TABLES}
        try:
            found = read_set(self.results, MANIFEST)
            if found is None:
                found = {name: read_bytes(self.results / name) for name in names if (self.results / name).exists()}
        except (OSError, ValueError) as error:
            raise _broken(self.results, str(error)) from error
        if not found and self.more is None:
            raise DataError(f"{self.results} contains no published results; `bench reproduce --export` writes them")
        if found and (missing := sorted(names.keys() - found.keys())):
            raise _broken(self.results, f"{', '.join(missing)} is missing")
        return {table: found[name] for name, table in names.items() if found}


def _rows(db: DuckDBPyConnection, keys: list[str]) -> dict[str, Any]:
    """What is kept of these runs, as Arrow tables."""
    return {
        table: db.sql(f"{_COUNTED} {query} order by {order}", params=[keys]).to_arrow_table()
        for table, (query, order) in _TABLES.items()
    }


def _file(table: str) -> str:
    return f"{table}.parquet"


def _broken(folder: Path, why: str) -> DataError:
    return DataError(
        f"{folder} is not a complete set of published results: {why}; restore its files (git checkout), "
        "or delete them and export all runs again"
    )


def _load(db: DuckDBPyConnection, table: str, content: bytes, folder: Path) -> None:
    import duckdb
    import pyarrow.parquet

    try:
        db.register("incoming", pyarrow.parquet.read_table(pyarrow.BufferReader(content)))
        db.execute(f"insert into {table} by name select * from incoming")  # noqa: S608 - one of the tables above
        if table == "run":
            db.execute("update run set budget = replace(budget, 'gradients=', 'passes=')")
    except (OSError, pyarrow.ArrowException, duckdb.Error) as error:
        raise _broken(folder, f"{_file(table)} cannot be read: {str(error).splitlines()[0]}") from error
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
