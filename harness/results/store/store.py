"""The public interface of the store."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.results.ledger.ledger import CHANGED, NETWORK, TRASH, Ledger, filesystem
from harness.results.store import connection, instances, schema
from harness.results.store.changes import Known, News, damaged_since, known, news, reread
from harness.results.store.connection import Busy, Damaged, Foreign, Refused
from harness.results.store.ingest import Redone, batches, forget, ingest
from harness.results.store.scan_cache import keep, look
from harness.system import cache
from harness.system.errors import DataError, UsageError
from harness.system.files import aside, read_json, write_json
from harness.system.text import is_text

if TYPE_CHECKING:
    import polars as pl
    from duckdb import DuckDBPyConnection


READING = ("SELECT", "EXPLAIN", "PRAGMA", "MULTI")
"""Kinds of statements that read: a pivot is several statements, and `pragma table_info('run')` is a query too."""


class Store:
    """The database of a results folder. Each call opens it, uses it and closes it.

    results   folder with runs/, locks/ and, unless machines share it, results.duckdb
    """

    def __init__(self, results: Path) -> None:
        self.results = results
        self.path = index(results)
        self._followed = self.path.with_name("followed.json")
        self._instead: DuckDBPyConnection | None = None  # a database in memory, which is read instead of the file
        self._closing = ExitStack()
        self.obstacle = ""
        """Why the database could not be brought up to date; "" if it was."""

    def refresh(self, *, replace: bool = True) -> list[str]:
        """Ingest what is new in the ledger.

        Returns notes for the user: what was left out and why. If the database cannot be written or is open elsewhere,
        this store reads the runs instead. It also does so if the database is damaged or of another version and
        `replace` is false. Raises `DataError` only if another version of DuckDB wrote the database.
        """
        notes: list[str] = []
        try:
            try:
                return self._refresh()
            except Damaged as state:
                if not replace:
                    raise Refused(f"{self.path} {state} (`bench ingest` replaces it)") from state
                notes += self._set_aside(state)
                return [*notes, *self._refresh()]
        except (Busy, Refused) as obstacle:
            self.obstacle = str(obstacle)
            return [*notes, *self.read_runs(), f"{obstacle}; the runs were read instead"]

    def read_runs(self) -> list[str]:
        """Read the runs instead of the database, which is not opened; returns notes on what was left out."""
        fresh = news(self.results, Known())
        self._read_instead(fresh)
        return fresh.notes

    @property
    def aside(self) -> bool:
        """Whether this store reads the runs instead of the database."""
        return self._instead is not None

    def rebuild(self) -> list[str]:
        """Rebuild the database from the ledger; the old one is replaced when the new one is complete.

        Returns notes for the user. Raises `DataError` if the database cannot be written.
        """
        try:
            return self._rebuild()
        except (Busy, Refused, OSError) as error:
            raise DataError(f"the database was not rebuilt: {error}") from error

    def _rebuild(self) -> list[str]:
        if self._is_foreign():
            return self._refresh()
        fresh = news(self.results, Known())
        self.results.mkdir(parents=True, exist_ok=True)
        new = aside(self.path)
        notes = []
        try:
            state = self._damage()  # this waits until no process has the database open
            _fill(new, fresh)
            if state is not None:
                notes = self._set_aside(state)
            connection.wal(self.path).unlink(missing_ok=True)
            new.replace(self.path)
        finally:
            new.unlink(missing_ok=True)
            connection.wal(new).unlink(missing_ok=True)
        return [*notes, *fresh.notes]

    def table(
        self, query: str, parameters: Sequence[Any] = (), *, most: int | None = None, seconds: float | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the columns and rows of one query; a second column of the same name is called name_1.

        Raises `UsageError` if there are more than `most` rows, or if the query takes more than `seconds`.
        """
        with self.reading() as db:
            _check_query(db, query)

            def answer() -> tuple[list[str], list[tuple[Any, ...]]]:
                answered = db.execute(query, list(parameters))
                rows = answered.fetchall() if most is None else answered.fetchmany(most + 1)
                return _distinct(column[0] for column in answered.description), rows

            try:
                names, rows = connection.interruptible(db, answer, seconds)
            except TimeoutError:
                raise UsageError(
                    f"the query took more than {seconds:g} s and was stopped; raise the limit by --timeout"
                ) from None
        if most is not None and len(rows) > most:
            raise UsageError(f"the answer has more than {most:,} rows; add a `limit`, or raise this one by --max-rows")
        return names, rows

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Return the rows of a query, each as a dict by column."""
        names, rows = self.table(query, parameters)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def frame(self, query: str, parameters: Sequence[Any] = ()) -> pl.DataFrame:
        """Return the rows of a query as a polars frame."""
        with self.reading() as db:
            return connection.interruptible(db, lambda: db.sql(query, params=list(parameters)).pl())

    def _refresh(self) -> list[str]:
        existed, filled, have = os.path.lexists(self.path), False, Known()
        settled = look(self.results, self.path)
        if settled.version == schema.VERSION:
            connection.believe(self.path)
        if existed:
            with connection.reading(self.path) as db:
                filled = connection.is_filled(db, self.path)
                have = known(db, settled.parts) if filled else have
            if filled and self._marks()[0]:
                have = self._read_changed_again()
        fresh = news(self.results, have)
        if self._is_foreign():
            self._read_instead(fresh)
            what = "are no runs in" if self.results.is_dir() else "is no results folder"
            return [*fresh.notes, f"there {what} {self.results}"]
        if fresh.gone and (self.results / TRASH).is_dir():  # `bench gc` deleted the attempts
            return self._rebuild()
        if not fresh and filled:
            keep(settled, self.path, fresh.troubled, schema.VERSION)
            return fresh.notes
        try:
            _fill(self.path, fresh, partial(damaged_since, self.results) if existed else None)
        except Refused as refusal:
            if not existed:  # a full disk left the beginning of a file
                with suppress(OSError):
                    self.path.unlink(missing_ok=True)
                    connection.wal(self.path).unlink(missing_ok=True)
            raise Refused(f"the database cannot be written: {refusal}") from refusal
        if not filled and self._marks()[0]:  # another command may have filled it with what it read before the change
            self._read_changed_again()
        return fresh.notes

    def _marks(self) -> tuple[set[str], set[str]]:
        """Return the marks of changed attempts, KEY.ATTEMPT.RANDOM: new ones, and those that were read before."""
        marks = {path.name for path in (self.results / CHANGED).glob("[0-9a-f]*.*")}
        before = marks & {*(read_json(self._followed) or {}).get("marks", [])}
        return marks - before, before

    def _read_changed_again(self) -> Known:
        """Replace the rows of changed attempts, while no other process has the database; return what it has then."""
        with connection.writing(self.path) as db:
            new, before = self._marks()
            keys = {mark.split(".")[1]: mark.split(".")[0] for mark in new}
            over = {mark for mark in new if not Ledger(self.results).held(mark.split(".")[0])}  # the others may go on
            forget(db, keys)
            ingest(db, reread(self.results, keys))
            with suppress(OSError):  # otherwise it is read once more
                if self.path.parent != self.results:  # other machines have databases of their own
                    write_json(self._followed, {"marks": sorted(before | over)})
                for mark in over if self.path.parent == self.results else ():
                    (self.results / CHANGED / mark).unlink(missing_ok=True)
            return known(db)

    def _is_foreign(self) -> bool:
        """Return whether the folder has neither runs nor a database: it may belong to something else, or be missing."""
        return not os.path.lexists(self.path) and not (self.results / "runs").is_dir()

    @contextmanager
    def reading(self) -> Iterator[DuckDBPyConnection]:
        """Open one connection for several queries, which may make temporary tables but change nothing."""
        import duckdb

        try:
            if self._instead is not None:
                with connection.ctrl_c(), instances.beside(self._instead) as db:
                    db.execute("begin transaction read only")
                    yield db
            else:
                with connection.reading(self.path) as db:
                    yield db
        except Busy as error:
            raise DataError(f"{error}; end it or wait for it") from error
        except Refused as error:
            raise DataError(f"{self.path} cannot be read: {error}") from error
        except Damaged as state:
            raise DataError(f"{self.path} {state}; {connection.REBUILD}") from state
        except duckdb.OutOfMemoryException as error:
            raise MemoryError(str(error)) from error
        except duckdb.Error as error:
            raise UsageError(f"the query failed: {error}") from error

    def _read_instead(self, fresh: News) -> None:
        """Fill a database in memory, which takes as much memory as the attempts have curves."""
        self._instead = self._closing.enter_context(connection.in_memory())
        ingest(self._instead, fresh)

    def _set_aside(self, state: Damaged) -> list[str]:
        try:
            aside = connection.set_aside(self.path, state)
        except OSError as error:
            raise Refused(f"{self.path} {state} and cannot be moved aside: {error.strerror or error}") from error
        return [f"{self.path} {state}; it is now {aside.name}, and the database was rebuilt from the runs"]

    def _damage(self) -> Damaged | None:
        """Return what is wrong with the database, or None. Waits until no process has it open."""
        try:
            with connection.reading(self.path):
                return None
        except Damaged as state:
            return state
        except DataError:
            return Foreign("is from another version of DuckDB")


def index(results: Path) -> Path:
    """Return the path of a results folder's database: inside it, or in a cache folder if kernel locks may not work.

    DuckDB relies on kernel locks. The cache folder is one of this machine; its name comes from the path and inode of
    the results folder, so another results folder has another database.
    """
    if not results.is_dir() or Ledger(results).locks_reach():
        return results / "results.duckdb"
    name = hashlib.sha256(f"{results.resolve()}\0{results.stat().st_ino}".encode()).hexdigest()[:16]
    folder = cache.folder("index")
    if filesystem(folder) in NETWORK:  # home folders of clusters often are on one
        folder = cache.temporary()
    return folder / name / "results.duckdb"


def _fill(path: Path, fresh: News, redone: Redone | None = None) -> None:
    """Write news into the database at `path`.

    The database is opened for each batch: until it is closed, DuckDB keeps in memory what it has written.
    """
    from concurrent.futures import ThreadPoolExecutor

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{path.parent} cannot be made: {error.strerror}") from error
    several = batches(fresh.records)
    with ThreadPoolExecutor(1) as reader:
        first = reader.submit(lambda: next(several, []))  # meanwhile the database is opened
        with connection.writing(path) as db:
            ingest(db, News(first.result()), redone)
    for batch in several:
        with connection.writing(path) as db:
            ingest(db, News(batch), redone)


def _check_query(db: DuckDBPyConnection, query: str) -> None:
    """Raise `UsageError` unless the query is one statement that reads. The connection itself prevents anything else."""
    if not is_text(query):
        raise UsageError("the query failed: it contains bytes that are not text")
    statements = db.extract_statements(query)
    if len(statements) != 1:
        raise UsageError(f"one query at a time; there {'are' if statements else 'is'} {len(statements) or 'none'} here")
    try:
        kind = statements[0].type.name
    except ValueError:  # DuckDB's Python module has no name for this kind
        kind = "something else"
    if kind not in READING:
        raise UsageError(
            f"the query failed: results are read-only here, and this is {kind}; "
            "allowed are select, from, show, describe, summarize, pivot, explain"
        )


def _distinct(names: Iterable[str]) -> list[str]:
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        distinct.append(f"{name}_{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return distinct
