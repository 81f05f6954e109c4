"""Results as Parquet files: the rows of runs, without their arrays, which a repository keeps and reads back as a store.

A set has one file or several for each table: TABLE.parquet, or TABLE-SHARD.parquet with the rows of some attempts.
manifest.json has their checksums, and a set that does not match them is refused.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import DataError
from harness.reports import Level, Store, write_set
from harness.results import connection, reader
from harness.system import columns, parse_json, read_set

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

_CHOSEN = "with chosen as (select * from attempt where attempt in (select unnest(?::varchar[])))"
_TABLES = {
    "run": ("select run.* from run semi join chosen using (run_key)", "run_key"),
    "attempt": ("from chosen", "attempt"),
    "metric": ("select metric.* from metric semi join chosen using (attempt)", "attempt, name"),
    "environment": ("select environment.* from environment semi join chosen using (environment)", "environment"),
}
"""Maps a table to the query for what is kept of some attempts, and to the order of these rows."""
ALL_TABLES = {
    **_TABLES,
    "task_version": (
        """select task_version.* from task_version semi join (from run semi join chosen using (run_key)) as asked on
        asked.task = task_version.task and asked.task_version = task_version.version
        and asked.task_source = task_version.source and asked.task_data = task_version.data""",
        "task, version, source, data",
    ),
    "curve_points": ("select curve_points.* from curve_points semi join chosen using (attempt)", "attempt, name"),
    "artifact": ("select artifact.* from artifact semi join chosen using (attempt)", "attempt, file"),
    "event": ("select event.* from event semi join chosen using (attempt)", "attempt, i"),
}
"""The same for an exported folder."""
VERIFICATION = "verification"
FILE = re.compile(rf"({'|'.join([*ALL_TABLES, VERIFICATION])})(?:-[0-9a-f]{{16}})?\.parquet")
MANIFEST = "manifest.json"
MOST_BYTES = 2**33
"""The largest table that is read, before compression: a small file can state any size."""
_KEYS = {
    "run": "run_key",
    "attempt": "attempt",
    "environment": "environment",
    "task_version": "task, version, source, data",
}
"""Tables of which several sets or shards may have the same rows, with their keys."""
_OBJECTS = {
    "run": ("sampler_params", "schedule_params", "task_params", "execution", "origins"), "environment": ("document",),
    "attempt": ("code",),
}  # fmt: skip
"""Columns of JSON objects that reports read."""
_CODE_OF_ENVIRONMENT = """
update attempt set code = coalesce(document -> 'code', '{}') from environment
where attempt.environment = environment.environment and code = '{}'"""
_REPORTED = f"""
delete from {VERIFICATION} where level not in {tuple(map(str, Level))};
insert into {VERIFICATION} select attempt, '{Level.REPORTED}', '', '', '' from attempt anti join {VERIFICATION}
using (attempt)"""  # noqa: S608 - own names
_FURTHEST = f"""
delete from attempt where attempt in (
    select attempt from attempt join {VERIFICATION} using (attempt)
    qualify list_position({[*map(str, Level)]}, level)
        < max(list_position({[*map(str, Level)]}, level)) over (partition by run_key)
)"""  # noqa: S608 - own names
"""Of each run, only the attempts that are verified furthest are kept."""


def of_folder(folder: Path) -> Store | None:
    """Return the store of an exported folder, or None for any other."""
    return Published(folder) if is_exported(folder) else None


def is_exported(folder: Path) -> bool:
    """Return whether a folder is an exported one, without attempts."""
    return (folder / MANIFEST).is_file() and not (folder / "runs").exists()


class Published(Store):
    """The Parquet files of a folder as a store; `more` is a store whose runs are added.

    The first query reads them, for all later ones.
    Reading raises `DataError` if the files are not a complete set, or if there are neither files nor `more`.
    """

    def __init__(self, folder: Path, more: Store | None = None) -> None:
        super().__init__(folder)
        self.more = more
        self.obstacle = f"{self.results} is an exported folder, which is read-only"

    def refresh(self, *, replace: bool = True) -> list[str]:
        """Read the files; nothing is written."""
        self._instead = self._closing.enter_context(self._filled())
        return []

    @contextmanager
    def reading(self) -> Iterator[DuckDBPyConnection]:
        """Open one connection for several queries, as the class describes."""
        if self._instead is None:
            self.refresh()
        with super().reading() as db:
            yield db

    @contextmanager
    def _filled(self) -> Iterator[DuckDBPyConnection]:
        with connection.in_memory() as db:
            for table, contents in self._files().items():
                load(db, table, contents, self.results)
            db.execute(_REPORTED)
            db.execute(_FURTHEST)
            if self.more is not None:
                _add(db, self.more)
                db.execute(f"delete from {VERIFICATION}")  # noqa: S608 - both stores are the owner's
            yield db

    def write(self, run_keys: Iterable[str], folder: Path) -> None:
        """Write these runs, each with the attempt that counts, as Parquet files; equal runs give equal bytes.

        The caller holds `files.alone(folder)`.
        """
        with self.reading() as db:
            tables = rows_of(db, _deciding_attempts(db, sorted(set(run_keys))), _TABLES)
        contents = {f"{table}.parquet": parquet(rows) for table, rows in tables.items()}
        try:
            write_set(folder, contents, MANIFEST)
        except OSError as error:
            raise DataError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error

    def run_keys(self) -> set[str]:
        """Return the keys of the runs in the folder itself."""
        contents = self._files().get("run", [])
        return {key for content in contents for key in read_rows(content, ["run_key"])["run_key"].to_pylist()}

    def _files(self) -> dict[str, list[bytes]]:
        """Return the contents of each table's files; {} if the folder has no set."""
        try:
            files = read_set(self.results, MANIFEST)
        except (OSError, ValueError) as error:
            raise _broken(self.results, str(error)) from error
        if files is None and any((self.results / f"{table}.parquet").exists() for table in _TABLES):
            raise _broken(self.results, f"{MANIFEST} is missing")
        if not files and self.more is None:
            raise DataError(f"{self.results} contains no exported results; `bench export` writes them")
        tables = by_table(files or {})
        if files and (missing := sorted(_TABLES.keys() - tables.keys())):
            raise _broken(self.results, f"{', '.join(f'{table}.parquet' for table in missing)} is missing")
        return tables


def by_table(files: Mapping[str, bytes]) -> dict[str, list[bytes]]:
    """Return the contents of the files that belong to tables, by table, in the order of their names."""
    tables: dict[str, list[bytes]] = {}
    for name in sorted(files):
        if match := FILE.fullmatch(name):
            tables.setdefault(match[1], []).append(files[name])
    return tables


def rows_of(db: DuckDBPyConnection, attempts: list[str], tables: Iterable[str] = ALL_TABLES) -> dict[str, Any]:
    """Return what is kept of these attempts, as an Arrow table for each table."""
    return {
        table: db.sql(
            f"{_CHOSEN} {ALL_TABLES[table][0]} order by {ALL_TABLES[table][1]}", params=[attempts]
        ).to_arrow_table()
        for table in tables
    }


def parquet(rows: Any) -> bytes:
    """Return an Arrow table as the content of a file; equal tables give equal bytes."""
    import pyarrow.parquet

    in_memory = io.BytesIO()
    pyarrow.parquet.write_table(rows, in_memory, compression="zstd")
    return in_memory.getvalue()


def _deciding_attempts(db: DuckDBPyConnection, keys: list[str]) -> list[str]:
    """Return, for these runs, the attempts that count."""
    query = "select attempt from result where run_key in (select unnest(?::varchar[])) order by attempt"
    return [attempt for (attempt,) in db.execute(query, [keys]).fetchall()]


def _broken(folder: Path, why: str) -> DataError:
    return DataError(
        f"{folder} is not a complete set of published results: {why}; restore its files (git checkout), "
        "or delete them and export all runs again"
    )


def read_rows(content: bytes, columns: list[str] | None = None) -> pa.Table:
    """Return the rows of a Parquet file. Raises `ValueError` if they would take more than `MOST_BYTES`.

    A few bytes can stand for any number of equal values, so texts are first read as indices into a list of the distinct
    texts, and their lengths are added up before the texts are expanded.
    """
    import pyarrow as pa
    from pyarrow import compute, parquet

    about = parquet.read_metadata(pa.BufferReader(content))
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    values = sum(group.column(i).num_values for group in groups for i in range(group.num_columns))
    total = max(8 * values, sum(group.total_byte_size for group in groups))
    schema = about.schema.to_arrow_schema()
    kinds = {pa.string(), pa.large_string(), pa.binary(), pa.large_binary()}
    texts = [field.name for field in schema if field.type in kinds]
    if total <= MOST_BYTES:
        rows = parquet.read_table(pa.BufferReader(content), columns=columns, read_dictionary=texts)
        for column in rows.columns:
            for chunk in column.chunks if pa.types.is_dictionary(column.type) else ():
                total += compute.sum(compute.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0
    if total > MOST_BYTES:
        raise ValueError(f"it states {total:,} bytes, at most {MOST_BYTES:,} are read")
    return rows.cast(pa.schema([schema.field(name) for name in columns]) if columns else schema)


def load(db: DuckDBPyConnection, table: str, contents: Iterable[bytes], folder: Path) -> None:
    """Insert the rows of a table's files into an open database.

    One row of a key is inserted; of a run, that of the latest record.
    """
    import duckdb
    import pyarrow as pa

    key = _KEYS.get(table, "")
    latest = "recorded_by desc" if table == "run" else key
    once = f"qualify row_number() over (partition by {key} order by {latest}) = 1" if key else ""
    try:
        parts = [read_rows(content) for content in contents]
        for name in _OBJECTS.get(table, ()):
            for text in {
                text for rows in parts if name in rows.column_names for text in rows[name].unique().to_pylist()
            }:
                record = parse_json((text or "{}").encode())
                if name == "origins":
                    reader.check_origins(record, name)
        incoming = pa.concat_tables(parts, promote_options="default")
        db.register("incoming", incoming)
        db.execute(f"insert into {table} by name select * from incoming {once}")  # noqa: S608 - one of the tables above
        if table == "environment":  # earlier versions had the code in it; attempts are read before environments
            db.execute(_CODE_OF_ENVIRONMENT)
    except (OSError, ValueError, MemoryError, columns.Malformed, pa.ArrowException, duckdb.Error) as error:
        raise _broken(folder, f"a file of {table} cannot be read: {str(error).partition(chr(10))[0]}") from error
    db.unregister("incoming")


def _add(db: DuckDBPyConnection, more: Store) -> None:
    """Add the concluded runs of another store. For a run that both have, the rows of the other store are kept."""
    keys = [row["run_key"] for row in more.rows("select run_key from result order by run_key")]
    with more.reading() as other:
        put(db, rows_of(other, _deciding_attempts(other, keys), _TABLES))


def put(db: DuckDBPyConnection, tables: dict[str, Any]) -> None:
    """Insert the rows of attempts into an open database, in place of those that it has of them."""
    for table, rows in tables.items():
        db.register("incoming", rows)
        key = _KEYS.get(table, "attempt")
        db.execute(f"delete from {table} where ({key}) in (select ({key}) from incoming)")  # noqa: S608 - named above
        db.execute(f"insert into {table} by name select * from incoming")  # noqa: S608 - named above
        db.unregister("incoming")
