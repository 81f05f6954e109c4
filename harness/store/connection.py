"""Opening the database: for writing, for reading, and in memory; what can go wrong, told apart."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness.errors import DataError
from harness.store import schema

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Answer = TypeVar("Answer")
PATIENCE = 2.0
"""Seconds to wait for another process to close the database: an ingest takes a fraction of one."""

BLANK = 3 * 4096
"""Bytes of a database without anything in it: it need not be asked what it has, which takes as long as to fill it."""
_WRITING = {"storage_compatibility_version": "v1.4.0"}
_NO_LOG = {"checkpoint_threshold": "0b"}
"""A commit goes into the file itself, not first into a log beside it."""
_LOCKED = {
    "temp_directory": "",  # what does not fit into memory is refused, not written beside the database
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",  # a query must not see variables of this program
    "lock_configuration": "true",
}
_DAMAGE = re.compile(
    r"not a valid DuckDB database|checksum|could not read enough bytes|corrupt|failed to deserialize|"
    r"serialization error|invalidated because of a previous fatal error|internal error|"
    r"wal (file|was created|checkpoint)",
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
    logged = wal(path).exists()
    with _opened(path, read_only=False) as db:
        blank = not logged and path.stat().st_size <= BLANK
        found = 0 if blank else schema.check(db, path)
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
    db.execute("; ".join(f"set {name} = '{value}'" for name, value in _LOCKED.items()))


def interruptible(db: DuckDBPyConnection, work: Callable[[], Answer], seconds: float | None = None) -> Answer:
    """What `work` on an open connection returns; `TimeoutError` where it takes more than `seconds`.

    Ctrl-C ends it, which DuckDB by itself notices only now and then.
    """
    from concurrent.futures import ThreadPoolExecutor, wait

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        try:
            return future.result(seconds)
        except (KeyboardInterrupt, TimeoutError):
            while not future.done():
                db.interrupt()
                wait([future], 0.05)
            raise


def told_apart(error: Exception, path: Path) -> Exception:
    """What a DuckDB error about the file means: Busy, Damaged, Refused, a DataError, or the error itself."""
    import duckdb

    query = (duckdb.ProgrammingError, duckdb.DataError, duckdb.IntegrityError, duckdb.NotSupportedError)
    if isinstance(error, query):  # its own fault, whatever words of its own the message repeats
        return error
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
    if _DAMAGE.search(text):
        return Damaged(text.splitlines()[0])
    return error


def wal(path: Path) -> Path:
    """The log beside the database at `path`, which is there after a kill only."""
    return path.with_name(path.name + ".wal")


def _for_writing(path: Path) -> dict[str, str]:
    """With a log that a kill left, commits go through it: else it stays, and no longer fits the file."""
    return _WRITING if wal(path).exists() else _WRITING | _NO_LOG


@contextmanager
def _opened(path: Path, *, read_only: bool) -> Iterator[DuckDBPyConnection]:
    import duckdb

    deadline = time.monotonic() + PATIENCE
    while True:
        config: dict[str, Any] = {} if read_only else _for_writing(path)
        try:
            db = duckdb.connect(str(path), read_only=read_only, config=config)
            break
        except (duckdb.Error, RuntimeError) as error:
            meaning = told_apart(error, path)
            if not isinstance(meaning, Busy) or time.monotonic() > deadline:
                raise meaning from error
        time.sleep(0.05)
    try:
        if read_only:
            lock(db)
        yield db
    except duckdb.Error as error:
        raise told_apart(error, path) from error
    finally:
        db.close()
