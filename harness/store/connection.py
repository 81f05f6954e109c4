"""Opening the database: for writing, for reading, and in memory; what can go wrong, told apart."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import DataError
from harness.store import schema

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PATIENCE = 2.0
"""Seconds to wait for another process to close the database: an ingest takes a fraction of one."""

_WRITING = {"storage_compatibility_version": "v1.4.0"}
_READING = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",  # a query must not see variables of this program
    "lock_configuration": "true",
}
_DAMAGE = re.compile(
    r"not a valid DuckDB database|checksum|could not read enough bytes|corrupt|failed to deserialize|"
    r"serialization error|invalidated because of a previous fatal error|internal error|wal file",
    re.IGNORECASE,
)


class Busy(Exception):  # noqa: N818 - a state, not an error
    """Another process holds the database; the message says which."""


class Damaged(Exception):  # noqa: N818 - a state, not an error
    """The file is not a database that can be read."""


class Refused(Exception):  # noqa: N818 - a state, not an error
    """The file system does not allow it: read-only, no permission, no space."""


@contextmanager
def writing(path: Path) -> Iterator[DuckDBPyConnection]:
    """The database at `path`, made or migrated where needed, open for writing."""
    with _opened(path, read_only=False) as db:
        found = schema.check(db, path)
        if found < schema.VERSION:
            schema.migrate(db, found)
        yield db


@contextmanager
def reading(path: Path) -> Iterator[DuckDBPyConnection]:
    """The database at `path`, which nothing done here can change, nor any other file. Empty where there is none."""
    if not path.exists():
        with in_memory() as db:
            lock(db)
            yield db
        return
    with _opened(path, read_only=True) as db:
        schema.check(db, path)
        yield db


@contextmanager
def in_memory() -> Iterator[DuckDBPyConnection]:
    """An empty database of this schema."""
    import duckdb

    with duckdb.connect(":memory:") as db:
        schema.migrate(db)
        yield db


def lock(db: DuckDBPyConnection) -> None:
    """Make an open connection unable to reach any file, for good."""
    for name, value in _READING.items():
        db.execute(f"set {name} = '{value}'")


def told_apart(error: Exception, path: Path) -> Exception:
    """What a DuckDB error about the file means: Busy, Damaged, Refused, a DataError, or the error itself."""
    import duckdb

    text = str(error)
    if "Could not set lock" in text or "Conflicting lock" in text:
        holder = re.search(r"PID (\d+)", text)
        who = f"process {holder.group(1)}" if holder else "another process"
        return Busy(f"{path} is open in {who}")
    if "database file with version number" in text:
        return DataError(
            f"{path} was written by a newer DuckDB; upgrade duckdb, or move the file away: it is rebuilt from the runs"
        )
    if re.search(r"permission denied|read-only file system|no space left", text, re.IGNORECASE):
        return Refused(text.splitlines()[0])
    if _DAMAGE.search(text) and not isinstance(error, duckdb.ProgrammingError):  # those are the query's own fault
        return Damaged(text.splitlines()[0])
    return error


@contextmanager
def _opened(path: Path, *, read_only: bool) -> Iterator[DuckDBPyConnection]:
    import duckdb

    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            db = duckdb.connect(str(path), read_only=read_only, config=dict(_READING if read_only else _WRITING))
            break
        except (duckdb.Error, RuntimeError) as error:
            meaning = told_apart(error, path)
            if not isinstance(meaning, Busy) or time.monotonic() > deadline:
                raise meaning from error
        time.sleep(0.05)
    try:
        yield db
    except duckdb.Error as error:
        raise told_apart(error, path) from error
    finally:
        db.close()
