"""Ingest: news is written into the database, in a transaction for each batch of attempts, idempotent by attempt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from harness.results.records import TABLES, columns_of, tables
from harness.results.store.changes import News
from harness.results.store.reader import Record

if TYPE_CHECKING:
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from harness.results.store.reader import AttemptCurve
    from harness.system.columns import Row

SHARED = {name: TABLES[name].key for name in tables("several")}
"""Tables whose rows several attempts share, with their keys; the latest attempt's row counts."""
_KEYS = {**SHARED, "attempt": TABLES["attempt"].key}
OWN = tables("attempt")
"""Tables whose rows each belong to one attempt."""
_PLAIN = "insert into {} by name select * from incoming"
_REPLACE = {
    "run": "insert or replace into run by name select incoming.* from incoming anti join run "
    "on run.run_key = incoming.run_key and run.recorded_by > incoming.recorded_by",
    "attempt": "insert or replace into attempt by name select * from incoming",
}
"""Statements for rows whose key exists already. In the other tables, rows of one key are equal."""


MAX_ATTEMPTS = 500
MAX_NUMBERS = 2**22
"""The largest number of values in the curves of a batch; with its other rows, such a batch takes about 100 MB."""

Redone = Callable[["DuckDBPyConnection", list[Record]], list[str]]


def ingest(db: DuckDBPyConnection, fresh: News, redone: Redone | None = None) -> None:
    """Write news into an open, writable database. Attempts that another process concluded in the meantime are skipped.

    `redone` returns the attempts to delete before a batch of records is written.
    """
    for records in batches(fresh.records):
        if redone is not None and (old := redone(db, records)):
            forget(db, old)
        _ingest(db, records)


def batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield the records in batches of limited size, so that a batch fits into memory."""
    batch: list[Record] = []
    numbers = 0
    for record in records:
        batch.append(record)
        numbers += sum(curve.y.size for curve in record.curves)
        if len(batch) >= MAX_ATTEMPTS or numbers >= MAX_NUMBERS:
            yield batch
            batch.clear()  # the caller may still refer to it
            numbers = 0
    if batch:
        yield batch


def _ingest(db: DuckDBPyConnection, batch: list[Record]) -> None:
    """Write a batch of records into a database, in one transaction."""
    query = "select attempt from attempt where concluded and attempt in (select unnest(?::varchar[]))"
    have = {attempt for (attempt,) in db.execute(query, [[record.attempt for record in batch]]).fetchall()}
    records = [record for record in batch if record.attempt not in have]
    rows: dict[str, list[Row]] = {}
    for record in sorted(records, key=lambda record: record.attempt):
        for table, members in record.rows.items():
            rows.setdefault(table, []).extend(members)
    for table, key in SHARED.items():
        rows[table] = list({tuple(row[name] for name in key): row for row in rows.get(table, [])}.values())
    db.execute("begin")
    db.execute("delete from event where attempt in (select unnest(?::varchar[]))", [[r.attempt for r in records]])
    for table, members in rows.items():
        _insert(db, table, members)
    _insert_curves(db, [curve for record in records for curve in record.curves])
    db.execute("commit")
    db.execute("checkpoint")


def forget(db: DuckDBPyConnection, attempts: Iterable[str]) -> None:
    """Delete attempts from an open, writable database, so that they are read again."""
    names = sorted(attempts)
    db.execute("begin")
    for table in OWN:
        db.execute(f"delete from {table} where attempt in (select unnest(?::varchar[]))", [names])  # noqa: S608 - named above
    db.execute("delete from run where recorded_by in (select unnest(?::varchar[]))", [names])
    db.execute("commit")
    db.execute("checkpoint")


def _insert(db: DuckDBPyConnection, table: str, rows: list[Row]) -> None:
    """Insert the rows. The few rows whose key exists already are written by slower statements."""
    key = _KEYS.get(table, ())
    there = _keys(db, table, key, rows) if key and rows else set()
    old = [row for row in rows if tuple(row[name] for name in key) in there]
    new = [row for row in rows if tuple(row[name] for name in key) not in there] if old else rows
    _execute(db, table, _PLAIN.format(table), new)
    if table in _REPLACE:
        _execute(db, table, _REPLACE[table], old)


def _keys(db: DuckDBPyConnection, table: str, key: tuple[str, ...], rows: list[Row]) -> set[tuple[Any, ...]]:
    """Return the keys of these rows that the table has, and perhaps others."""
    query = f"select {', '.join(key)} from {table} where {key[0]} in (select unnest(?::varchar[]))"  # noqa: S608 - own names
    return set(db.execute(query, [list({row[key[0]] for row in rows})]).fetchall())


def _execute(db: DuckDBPyConnection, table: str, statement: str, rows: list[Row]) -> None:
    """Execute a statement on the rows, which it calls `incoming`. Arrow would be faster, but imports pandas first."""
    if not rows:
        return
    columns = columns_of(table)
    unnested = ", ".join(f"unnest(?::{column.type}[]) as {name}" for name, column in columns.items())
    db.execute(f"with incoming as (select {unnested}) {statement}", [[row[name] for row in rows] for name in columns])


def _insert_curves(db: DuckDBPyConnection, curves: list[AttemptCurve]) -> None:
    """Insert a row for each curve, with its points as lists. NaN becomes NULL."""
    if not curves:
        return
    import numpy as np
    import pyarrow as pa

    def lists(arrays: list[NDArray[np.float64]]) -> Any:
        ends = np.cumsum([0, *(array.size for array in arrays)], dtype=np.int32)
        numbers = np.concatenate([array.ravel() for array in arrays], dtype=np.float64)
        return pa.ListArray.from_arrays(arrow(ends, pa.int32()), arrow(numbers, pa.float64()))

    def arrow(array: NDArray[Any], kind: Any) -> Any:
        """Replace pa.array(array, from_pandas=True), which imports pandas if that is installed: 0.3 s."""
        valid = np.packbits(array == array, bitorder="little")  # noqa: PLR0124 - a NaN is not equal to itself
        return pa.Array.from_buffers(kind, len(array), [pa.py_buffer(valid), pa.py_buffer(array)])

    points = {"x": lists([curve.x for curve in curves]), "y": lists([curve.y for curve in curves])}
    of = [[curve.attempt for curve in curves], [curve.name for curve in curves]]
    db.register("points_incoming", pa.table(points))
    try:
        db.execute(
            "insert into curve_points by name from (select unnest(?::varchar[]) as attempt, unnest(?::varchar[]) as "
            "name) positional join points_incoming",
            of,
        )
    finally:
        db.unregister("points_incoming")
