"""Whether the database is what a rebuild would give, table by table and row by row."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import DataError
from harness.ledger.verification import Problem
from harness.store import connection, schema
from harness.store.connection import Busy, Damaged, Refused
from harness.store.ingest import ingest
from harness.store.news import Known, News, known, lacking, news

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from harness.store.store import Store

REBUILD = "`bench ingest --rebuild` makes it anew"
SHOWN = 3


def problems(store: Store, papers: Iterable[Path]) -> list[Problem]:
    """What is wrong with a store's database. What it merely lacks so far, the next reading command adds: no problem.

    Changes nothing. Attempts that cannot be read are left out on both sides, and are problems too.
    """
    with connection.in_memory() as db:
        have = Known()
        if os.path.lexists(store.path):
            try:
                _copy(db, store.path)
                have = known(db)
            except Damaged as state:
                return [Problem(store.path, str(state), REBUILD)]
            except (Busy, Refused) as obstacle:
                return [Problem(store.path, f"was not compared: {obstacle}", "end that, then verify again")]
        found = news(store.results, Known(), papers)
        papers_now = {row["sha256"] for row in (found.papers or {}).get("paper", [])}
        ingest(db, News(lacking(found.records, have), found.papers if papers_now != have.papers else None))
        db.execute("attach ':memory:' as rebuilt")
        db.execute("use rebuilt")
        schema.migrate(db)
        ingest(db, found)
        different = [_different(db, table, store.path) for table in schema.objects() if table in _tables(db)]
    return [*map(_noted, found.notes), *(problem for problem in different if problem)]


def _noted(note: str) -> Problem:
    """What an ingest has to say, as a problem of the path that it begins with."""
    path, _, what = note.partition(": ")
    path, out, _ = path.partition(" is left out")
    return Problem(Path(path), f"is left out of the database: {what}" if out else what, "see to it, then verify again")


def _copy(db: DuckDBPyConnection, path: Path) -> None:
    """Fill the empty tables of `db` with the rows of the database at `path`."""
    import pyarrow as pa

    with connection.reading(path) as disk:
        if connection.version(disk, path) != schema.VERSION:
            raise DataError(f"{path} is of another version of the schema; `bench ingest` brings it up to date")
        for table in _tables(db):
            db.execute(f"delete from {table}")  # noqa: S608 - a table of ours, as below
            db.register("incoming", pa.RecordBatchReader.from_stream(disk.sql(f"from {table}")))
            db.execute(f"insert into {table} by name select * from incoming")  # noqa: S608
            db.unregister("incoming")


def _tables(db: DuckDBPyConnection) -> list[str]:
    rows = db.execute("select distinct table_name from duckdb_tables() where not internal order by all").fetchall()
    return [name for (name,) in rows]


def _different(db: DuckDBPyConnection, table: str, path: Path) -> Problem | None:
    """How a table as it is, in `memory`, differs from that of a rebuild."""
    names = list(schema.columns(table))
    listed = ", ".join(names)
    sides = {"surplus": ("memory", "rebuilt"), "lacking": ("rebuilt", "memory")}
    counts = {}
    for side, (one, other) in sides.items():
        db.execute(
            f"create or replace temp table {side} as "  # noqa: S608 - names of ours
            f"select {listed} from {one}.main.{table} except all select {listed} from {other}.main.{table}"
        )
        counts[side] = db.execute(f"select count(*) from {side}").fetchall()[0][0]  # noqa: S608
    if not any(counts.values()):
        return None
    which = db.execute(
        f"select distinct {names[0]} from (from surplus union all from lacking) order by all limit {SHOWN}"  # noqa: S608
    ).fetchall()
    what = (
        f"table {table}: {counts['surplus']:,} rows that a rebuild would not give, {counts['lacking']:,} missing; "
        f"the first are of {names[0]} {', '.join(str(name) for (name,) in which)}"
    )
    return Problem(path, what, REBUILD)
