"""Whether the database is what a rebuild would give, table by table and row by row.

Of each attempt, run and the like, the number of rows and the sum of their hashes are compared. So the attempts on disk
are read a batch at a time, and memory holds one batch and a few numbers for each attempt.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.results.ledger.verification import Damage
from harness.results.records import columns_of
from harness.results.store import connection
from harness.results.store.changes import Known, News, known, lacking, news
from harness.results.store.connection import Busy, Damaged, Older, Refused
from harness.results.store.ingest import OWN, PAPERS, SHARED, batches, ingest
from harness.system.errors import DataError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from harness.results.store.store import Store

REBUILD = "`bench ingest --rebuild` rebuilds it"
SHOWN = 3

Key = tuple[Any, ...]
Prints = dict[str, dict[Key, Key]]
"""Table -> key of an attempt, a run or the like -> number of its rows and the sum of their hashes."""
_KEYS = {**dict.fromkeys(OWN, ("attempt",)), **SHARED, **dict.fromkeys(PAPERS, ("paper",))}


def problems(store: Store, papers: Iterable[Path]) -> list[Damage]:
    """What is wrong with a store's database. What it merely lacks so far, the next reading command adds: no problem.

    Changes nothing. Attempts that cannot be read are left out on both sides, and are problems too.
    """
    import duckdb

    try:
        try:
            have, there = _found(store.path, frugal=True)
        except duckdb.OutOfMemoryException:  # of long curves, DuckDB needs many at a time
            have, there = _found(store.path, frugal=False)
    except Older as state:
        raise DataError(f"{store.path} {state}; `bench ingest` rebuilds it") from state
    except Damaged as state:
        return [Damage(store.path, str(state), REBUILD)]
    except (Busy, Refused) as obstacle:
        return [Damage(store.path, f"was not compared: {obstacle}", "end that, then verify again")]
    found = news(store.results, Known(), papers)
    wrong = [_problem(store.path, table, keys) for table, keys in _different(there, have, found).items() if keys]
    return [*map(_noted, found.notes), *wrong]


def _found(path: Path, *, frugal: bool) -> tuple[Known, Prints]:
    """What a database has, and the prints of its rows."""
    with connection.reading(path, frugal=frugal) as db:
        if os.path.lexists(path) and not connection.is_filled(db, path):
            raise DataError(f"{path} has no tables; `bench ingest` makes them")
        return known(db), _prints(db)


def _different(there: Prints, have: Known, found: News) -> dict[str, set[Key]]:
    """By table, the keys whose rows are not those that a rebuild would give."""
    rebuilt = _rebuilt(News(papers=found.papers))
    if {row["sha256"] for row in (found.papers or {}).get("paper", [])} != have.papers:  # they are read anew
        there |= {table: rebuilt[table] for table in PAPERS}
    to_come: dict[str, set[Key]] = {table: set() for table in _KEYS}
    for batch in batches(found.records):  # the attempts of a run in their order: the latest record of it counts
        for table, prints in _rebuilt(News(batch)).items():
            rebuilt[table] |= prints
        for record in lacking(batch, have):
            for table in (*OWN, *SHARED):
                rows = record.rows.get(table, []) if table in SHARED else [{"attempt": record.attempt}]
                to_come[table] |= {tuple(row[name] for name in _KEYS[table]) for row in rows}
    return {
        table: {
            key
            for key in rebuilt[table].keys() | there[table].keys()
            if rebuilt[table].get(key) != there[table].get(key)
            and (key not in to_come[table] or (key in there[table] and table not in (*OWN, "run")))
        }
        for table in _KEYS
    }


def _rebuilt(found: News) -> Prints:
    with connection.in_memory() as db:
        ingest(db, found)
        return _prints(db)


def _prints(db: DuckDBPyConnection) -> Prints:
    found: Prints = {}
    for table, names in _KEYS.items():
        key, row = ", ".join(names), ", ".join(columns_of(table))
        query = f"select {key}, count(*), sum(hash({row})) from {table} group by {key}"  # noqa: S608 - names of ours
        rows = db.execute(query).fetchall()
        found[table] = {tuple(values[: len(names)]): tuple(values[len(names) :]) for values in rows}
    return found


def _problem(path: Path, table: str, keys: Collection[Key]) -> Damage:
    first = ", ".join(" ".join(map(str, key)) for key in sorted(keys, key=str)[:SHOWN])
    what = f"table {table}: rows of {len(keys):,} {_KEYS[table][0]}s are not those that a rebuild would give: {first}"
    return Damage(path, f"{what}{' ...' if len(keys) > SHOWN else ''}", REBUILD)


def _noted(note: str) -> Damage:
    """What an ingest has to say, as a problem of the path that it begins with."""
    path, _, what = note.partition(": ")
    path, out, _ = path.partition(" is left out")
    return Damage(Path(path), f"is left out of the database: {what}" if out else what, "see to it, then verify again")
