"""Databases within instances of DuckDB that the process keeps: starting one takes twenty times as long as attaching."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

KEPT = 4
"""Instances of databases on disk that a process keeps while none of theirs is attached; each has threads of its own."""
NAME = "results"
"""The name of a database on disk in its instance."""
_numbers = itertools.count()
_guard = threading.RLock()
"""Held while instances are chosen, databases are attached and detached."""


@dataclass
class _Instance:
    """An instance in memory, how many connections to its database on disk there are, and whether one met an error."""

    db: DuckDBPyConnection
    users: int = 0
    failed: bool = False


_instances: dict[tuple[int, str], _Instance] = {}
"""Maps a process and a path, or "" for databases in memory, to an instance; the last used is the last one. A forked
process has none of the threads of those that it inherits, so it starts its own.
"""


@contextmanager
def on_disk(path: str, start: Callable[[], DuckDBPyConnection]) -> Iterator[DuckDBPyConnection]:
    """Attach the database at `path` for reading, and yield a connection to it.

    `start` returns an instance that may open this path and no other. At the end DuckDB closes the file, unless another
    connection of this process uses it. After an error the instance is not used again.
    """
    key = os.getpid(), path
    with _guard:
        instance = _instances.pop(key, None) or _Instance(start())
        if not instance.users:
            instance.db.execute(f"attach {quoted(path)} as {NAME} (read_only)")
        instance.users += 1
        _instances[key] = instance
    try:
        with _connected(instance.db, NAME) as connection:
            connection.execute("begin transaction read only")
            yield connection
    except BaseException:
        instance.failed = True
        raise
    finally:
        with _guard:
            instance.users -= 1
            if not instance.users:
                _detach(instance.db, NAME)
                if instance.failed:
                    del _instances[key]
            _close_idle()


@contextmanager
def in_memory(start: Callable[[], DuckDBPyConnection]) -> Iterator[DuckDBPyConnection]:
    """Make an empty database in memory, and yield a connection to it.

    `start` returns an instance that opens no file. It serves all databases in memory, and after an error no new one.
    """
    key, name = (os.getpid(), ""), f"runs{next(_numbers)}"
    with _guard:
        instance = _instances.get(key) or _instances.setdefault(key, _Instance(start()))
        instance.db.execute(f"attach ':memory:' as {name}")
    try:
        with _connected(instance.db, name) as connection:
            yield connection
    except BaseException:
        if _instances.get(key) is instance:
            del _instances[key]
        raise
    finally:
        with _guard:
            _detach(instance.db, name)


def beside(connection: DuckDBPyConnection) -> DuckDBPyConnection:
    """Return a separate connection to the same database."""
    ((name,),) = connection.execute("select current_database()").fetchall()
    return _connected(connection, name)


def quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _connected(db: DuckDBPyConnection, name: str) -> DuckDBPyConnection:
    return db.cursor().execute(f"use {name}")


def _detach(db: DuckDBPyConnection, name: str) -> None:
    import duckdb

    with suppress(duckdb.Error):  # an instance that failed has let go of all its files
        db.execute(f"detach {name}")


def _close_idle() -> None:
    """Close the instances of this process that were not used for the longest time, all but a few."""
    idle = [key for key, its in _instances.items() if key[0] == os.getpid() and key[1] and not its.users]
    for key in idle[:-KEPT]:
        _instances.pop(key).db.close()
