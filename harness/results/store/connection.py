"""Connections to the database: for writing, for reading, and in memory; one exception for each kind of failure.

A database may come from a stranger, so every connection of this program is made here. It is restricted before DuckDB
opens the file, and nothing lifts that: it reaches no other file and no network, and loads no extension. A path that is
not an ordinary file is not opened, and of a database only the catalogue is read until it is found to be the schema's.
"""

from __future__ import annotations

import functools
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness.results.store import instances, schema
from harness.system.errors import DataError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Answer = TypeVar("Answer")
REBUILD = "`bench ingest --rebuild` moves it aside and rebuilds the database from the runs"
LOCK_TIMEOUT_SECONDS = 2.0
"""Seconds to wait for another process to close the database; an ingest takes a fraction of a second."""

BLANK = 3 * 4096
"""Size in bytes of an empty database. Its catalogue is not read, because that takes as long as filling it."""
_LOCKED = {
    "enable_external_access": "false",  # still allows the database, its log and attached databases in memory
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # a query must not see variables of this program
    # A query that does not fit into memory fails; nothing is written beside the database. DuckDB applies the settings
    # from the last to the first, and without external access it refuses this one.
    "temp_directory": "",
}
_WRITING = {"storage_compatibility_version": "v1.4.0"}
_READING = {"memory_limit": "1GB"}
"""Without a limit, DuckDB keeps what it has read, up to most of the machine's memory."""
_NO_LOG = {"checkpoint_threshold": "0b"}
"""With this setting, a commit goes directly into the file, and not first into a log beside it."""
_NO_MERGING = {"max_vacuum_tasks": "0"}
MAX_MERGED = 2**26
"""Size in bytes of a database above which the remains of many ingests are not merged. Merging saves 256 kB for each
ingest, but takes up to four times the merged bytes of memory: 1.8 GB at 800 MB.
"""
_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")
"""Suffixes of the files that DuckDB opens beside a database."""
_CATALOGUE = {
    kind: f"select '{kind}', {name}, {text}::varchar from duckdb_{source}() where database_name = current_database()"  # noqa: S608
    for kind, source, name, text in (
        ("table", "tables", "table_name", "sql"),
        ("view", "views", "view_name", "sql"),
        ("macro", "functions", "function_name", "macro_definition"),
        ("index", "indexes", "index_name", "sql"),
        ("sequence", "sequences", "sequence_name", "sql"),
        ("type", "types", "type_name", "logical_type"),
        ("schema", "schemas", "schema_name", "null"),
        ("trigger", "triggers", "trigger_name", "sql"),  # since DuckDB 2
    )
}
"""Maps each kind of object that a database may define to the query that lists these: kind, name, definition."""
_ALWAYS_PRESENT = {"type", "schema"}
"""Kinds of objects that every database has."""
_FOREIGN = re.compile(r"not a valid DuckDB database|Cannot launch in-memory|external extensions is disabled")
"""Matches how DuckDB refuses the files of other programs; it would read some of them with an extension."""
_HELD = re.compile("Could not set lock|Conflicting lock|Unique file handle conflict")
"""Matches how DuckDB refuses a file that another process has, or another instance of this one."""
_DAMAGE = re.compile(
    r"checksum|could not read enough bytes|corrupt|failed to deserialize|"
    r"serialization error|invalidated because of a previous fatal error|internal error|"
    r"wal (file|was created|checkpoint)",
    re.IGNORECASE,
)


class Busy(Exception):  # noqa: N818 - a state, not an error
    """Another process holds the database; the message says which one."""


class Damaged(Exception):  # noqa: N818 - a state, not an error
    """The file is not a database that can be read; the message continues a sentence that begins with its path."""


class Foreign(Damaged):
    """The file is not a database that bench wrote."""


class Older(Damaged):
    """The database has the tables of another version."""


class Refused(Exception):  # noqa: N818 - a state, not an error
    """The file system does not allow it: read-only, no permission, no space."""


@contextmanager
def writing(path: Path) -> Iterator[DuckDBPyConnection]:
    """Open the database at `path` for writing, and make it if needed.

    A database that bench did not write is not opened.
    """
    if os.path.lexists(path) and _identity(path) not in _known:
        with reading(path):
            pass
    with _opened(path, lambda: _connect(str(path), **_for_writing(path))) as db:
        blank = not wal(path).exists() and path.stat().st_size <= BLANK
        if blank or not is_filled(db, path):
            schema.create(db)
        yield db
    believe(path)


@contextmanager
def reading(path: Path) -> Iterator[DuckDBPyConnection]:
    """Open the database at `path` for reading, or an empty one if it is missing.

    It cannot change this or any other file.
    """
    path = path.parent.resolve() / path.name  # the same file under one name, also after a change of folder
    if not os.path.lexists(path):
        _check_files(path)
        with in_memory() as db:
            yield db
        return
    with _opened(path, lambda: instances.on_disk(str(path), lambda: _started(path))) as db:
        is_filled(db, path)
        yield db


@contextmanager
def in_memory() -> Iterator[DuckDBPyConnection]:
    """Open an empty database of this schema in memory."""
    with ctrl_c(), instances.in_memory(lambda: _connect(":memory:")) as db:
        schema.create(db)
        yield db


def is_filled(db: DuckDBPyConnection, path: Path) -> bool:
    """Return whether the open database at `path` has the tables and views of the schema; False if it has nothing.

    Raises `Older` if it has those of another version of bench, and `Foreign` for any others.
    """
    state = _identity(path)
    if state not in _known:
        _known[state] = _is_filled(db)
    return _known[state]


def believe(path: Path) -> None:
    """Note that the database at `path`, in its present state, was checked before and has the tables of the schema."""
    _known[_identity(path)] = True


@contextmanager
def ctrl_c() -> Iterator[None]:
    """Raise `KeyboardInterrupt` where DuckDB noticed Ctrl-C in a query, for which it raises an error like any other."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from error
        raise


def interruptible(db: DuckDBPyConnection, work: Callable[[], Answer], seconds: float | None = None) -> Answer:
    """Return what `work` on an open connection returns. Raises `TimeoutError` if it takes more than `seconds`.

    Ctrl-C ends the work; DuckDB by itself notices that only now and then.
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
    """Return what a DuckDB error about the file means: Busy, Damaged, Refused, a DataError, or the error itself."""
    import duckdb

    query = (duckdb.ProgrammingError, duckdb.DataError, duckdb.IntegrityError, duckdb.NotSupportedError)
    if isinstance(error, query):  # an error of the query, whatever words of it the message repeats
        return error
    text = str(error)
    if _HELD.search(text):
        holder = re.search(r"PID (\d+)", text)
        who = f"process {holder.group(1)}" if holder else "this process" if "Unique" in text else "another process"
        return Busy(f"{path} is open in {who}")
    if "database file with version number" in text:
        return DataError(f"{path} was written by another version of DuckDB; upgrade duckdb, or {REBUILD}")
    if re.search(r"permission denied|read-only file system|no space left|cannot open file", text, re.IGNORECASE):
        return Refused(text.splitlines()[0])
    if _DAMAGE.search(text):
        return Damaged(f"is damaged ({text.splitlines()[0]})")
    return error


def wal(path: Path) -> Path:
    """Return the path of the log beside the database at `path`; the log exists only after a kill."""
    return path.with_name(path.name + ".wal")


def set_aside(path: Path, state: Damaged) -> Path:
    """Rename the database at `path` and its logs to an unused name, which is returned. No other file is touched."""
    kind = next((name for name, of in (("foreign", Foreign), ("older", Older)) if isinstance(state, of)), "damaged")
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    aside = path.with_name(f"{path.name}.{kind}-{moment}_{secrets.token_hex(3)}")
    for end in ("", *_LOGS):
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(aside.with_name(aside.name + end))
    return aside


def _for_writing(path: Path) -> dict[str, str]:
    """Return the settings for writing.

    If a kill left a log, commits go through it: otherwise it stays, and no longer fits the file.
    """
    config = _WRITING if wal(path).exists() else _WRITING | _NO_LOG
    return config | _NO_MERGING if path.exists() and path.stat().st_size > MAX_MERGED else config


def _connect(path: str, allowed: Sequence[str] = (), **config: str) -> DuckDBPyConnection:
    """Start an instance of DuckDB with locked settings, open a database in it, and allow it to open others.

    All instances are started here. DuckDB takes what is allowed only from an instance that has started, so one with
    files that are allowed has to be in memory.
    """
    import duckdb

    settings: dict[str, Any] = {**_LOCKED, **config}
    access = settings.pop("enable_external_access") if allowed else ""
    with ctrl_c():
        opened = duckdb.connect(path, config=settings)
        if allowed:
            opened.execute(f"set allowed_paths = [{', '.join(map(instances.quoted, allowed))}]")
            opened.execute(f"set enable_external_access = {access}")
        with suppress(duckdb.InvalidInputException):  # in Jupyter without ipywidgets, the bar is off and cannot be set
            opened.execute("set enable_progress_bar = false")
        opened.execute("set lock_configuration = true")
    return opened


def _started(path: Path) -> DuckDBPyConnection:
    """Return an instance that can open the database at `path` with its logs, and no other file."""
    return _connect(":memory:", [f"{path}{end}" for end in ("", *_LOGS)], **_READING)


@contextmanager
def _opened(
    path: Path, opening: Callable[[], AbstractContextManager[DuckDBPyConnection]]
) -> Iterator[DuckDBPyConnection]:
    """Open the database at `path`, waiting while another process has it; errors say what they mean for the file."""
    import duckdb

    _check_files(path)
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    with ExitStack() as closing:
        while True:
            try:
                db = closing.enter_context(opening())
                break
            except (duckdb.Error, RuntimeError) as error:
                if _FOREIGN.search(str(error)):
                    raise Foreign("is not a DuckDB database") from error
                meaning = told_apart(error, path)
                if not isinstance(meaning, Busy) or time.monotonic() > deadline:
                    raise meaning from error
            time.sleep(0.05)
        try:
            with ctrl_c():
                yield db
        except duckdb.Error as error:
            raise told_apart(error, path) from error


def _check_files(path: Path) -> None:
    """Raise `Foreign` unless the database and its logs are ordinary files; opening others could block for ever.

    Raises `Refused` for a path that DuckDB takes for another one, because of a character in it.
    """
    if re.search(r"[?\\]", str(path)):
        raise Refused(f"DuckDB cannot open {path}, because of ? or \\ in it")
    for end in ("", *_LOGS):
        try:
            mode = path.with_name(path.name + end).lstat().st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            raise Foreign(
                f"has a log, {path.name}{end}, that is not an ordinary file" if end else "is not an ordinary file"
            )
        if end and not os.path.lexists(path):
            raise Foreign(f"is missing, and its log {path.name}{end} is there")


_known: dict[tuple[int, ...], bool] = {}
"""Maps the state of a checked database's files to whether it has the schema's tables."""


def _identity(path: Path) -> tuple[int, ...]:
    """Return numbers that distinguish this state of a database and its log from any other."""
    states = [file.lstat() for file in (path, wal(path)) if os.path.lexists(file)]
    return tuple(x for f in states for x in (f.st_dev, f.st_ino, f.st_size, f.st_mtime_ns, f.st_ctime_ns))


def _is_filled(db: DuckDBPyConnection) -> bool:
    foreign = Foreign("is a database that this bench did not write: it has other tables, views or functions")
    defined, expected = _catalogue(db), _schema_catalogue()
    if {kind for kind, *_ in defined} <= _ALWAYS_PRESENT:
        return False
    if not {entry for entry in defined & expected if entry[:2] == ("table", "meta")}:
        raise foreign
    ((text,),) = db.execute("select coalesce(max(value), '') from meta where key = 'schema_version'").fetchall()
    if text != schema.VERSION and re.fullmatch("[0-9a-f]{1,16}", text):  # earlier versions were numbered 1 to 6
        raise Older("has the tables of another version of bench")
    if text != schema.VERSION or defined != expected:
        raise foreign
    return True


@functools.cache
def _schema_catalogue() -> frozenset[tuple[str, str, str]]:
    """Return the catalogue of a database of this schema."""
    with in_memory() as db:
        return _catalogue(db, passed_over={"macro"})  # it has none, and they take the longest to list


def _catalogue(db: DuckDBPyConnection, passed_over: AbstractSet[str] = frozenset()) -> frozenset[tuple[str, str, str]]:
    """Return all that a database defines: kind, name, definition. None of it is executed."""
    import duckdb

    queries = {kind: query for kind, query in _CATALOGUE.items() if kind not in passed_over}
    try:
        return frozenset(db.execute(" union all ".join(queries.values())).fetchall())
    except duckdb.CatalogException:
        queries.pop("trigger")
        return frozenset(db.execute(" union all ".join(queries.values())).fetchall())
