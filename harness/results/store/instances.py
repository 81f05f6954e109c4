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
"""Instances that a process keeps while nothing uses them; each has threads of its own."""
NAME = "results"
"""The name of a database on disk in its instance."""
_numbers = itertools.count()
_guard = threading.RLock()
"""Held while instances are chosen, databases are attached and detached."""


@dataclass
class _Instance:
    """An instance in memory, how many databases or connections of it are in use, and whether one met an error."""

    db: DuckDBPyConnection
    users: int = 0
    failed: bool = False


_instances: dict[str, _Instance] = {}
"""Maps a path, or "" for databases in memory, to an instance; the last used is the last one."""


@contextmanager
def on_disk(path: str, start: Callable[[], DuckDBPyConnection]) -> Iterator[DuckDBPyConnection]:
    """Attach the database at the absolute `path` for reading, and yield a connection to it.

    `start` returns an instance that may open this path and no other. At the end DuckDB closes the file, unless another
    connection of this process uses it: a file has one instance, since closing a second one would end the lock of the
    first. After an error the instance is closed with its last connection.
    """
    with _guard:
        instance = _instances.pop(path, None) or _Instance(start())
        if not instance.users:
            instance.db.execute(f"attach {quoted(path)} as {NAME} (read_only)")
        instance.users += 1
        _instances[path] = instance
    with _attached(path, instance, NAME) as connection:
        connection.execute("begin transaction read only")
        yield connection


@contextmanager
def in_memory(start: Callable[[], DuckDBPyConnection]) -> Iterator[DuckDBPyConnection]:
    """Make an empty database in memory, and yield a connection to it. `start` returns an instance without files."""
    name = f"runs{next(_numbers)}"
    with _guard:
        instance = _instances.pop("", None) or _Instance(start())
        instance.db.execute(f"attach ':memory:' as {name}")
        instance.users += 1
        _instances[""] = instance
    with _attached("", instance, name) as connection:
        yield connection


@contextmanager
def _attached(path: str, instance: _Instance, name: str) -> Iterator[DuckDBPyConnection]:
    """Connect to an attached database, and detach it when nothing else uses it. An instance that failed is not kept."""
    try:
        with _connected(instance.db, name) as connection:
            yield connection
    except BaseException:
        instance.failed = True
        raise
    finally:
        with _guard:
            instance.users -= 1
            if name != NAME or not instance.users:
                _detach(instance.db, name)
            if instance.failed and not instance.users and _instances.get(path) is instance:
                del _instances[path]
            _close_idle(KEPT)


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


def _close_idle(kept: int) -> None:
    """Close the instances that nothing uses, all but the `kept` that were used last."""
    idle = [path for path, instance in _instances.items() if not instance.users]
    for path in idle[: max(0, len(idle) - kept)]:
        _instances.pop(path).db.close()


def _before_fork() -> None:
    """Close what is idle: a forked process has none of the threads of an instance, and would end with an error."""
    _guard.acquire()
    _close_idle(0)


os.register_at_fork(before=_before_fork, after_in_parent=_guard.release, after_in_child=_guard.release)
