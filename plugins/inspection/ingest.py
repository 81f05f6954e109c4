"""`bench ingest`: update the database from the runs on disk, or verify both."""

from __future__ import annotations

from typing import Annotated

import typer

from harness import Bench, DataError, Result, UsageError
from harness.reporting import table
from harness.reports import Store
from harness.results import Ledger
from harness.system import count
from plugins.upkeep import verification


def ingest(
    bench: Bench,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Rebuild the database from the runs.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check all checksums, and the database against a rebuild.")
    ] = False,
) -> Result:
    """Update the database from the runs on disk. Commands that read results do this on their own.

    Examples:
        bench ingest
        bench ingest --verify
    """
    if rebuild and verify:
        raise UsageError("--rebuild and --verify exclude each other; give one after the other")
    ledger = bench.ledger
    ledger.check_version()
    store = Store(ledger.root)
    if verify:
        return _verify(ledger, store)
    notes = store.rebuild() if rebuild else store.refresh()
    for note in notes:
        bench.say(f"note: {note}")
    if store.obstacle:
        raise DataError(f"{store.path} could not be updated; the runs are safe, repeat the command later")
    rows = store.rows("select status, count(*) as attempts from attempt group by status order by status")
    return Result([table(rows, ["status", "attempts"])], rows, changed=True)


def _verify(ledger: Ledger, store: Store) -> Result:
    damages: list[verification.Damage] = []
    attempts = 0
    for key in ledger.all_keys():
        for attempt in ledger.attempts(key):
            attempts += 1
            damages += verification.of_attempt(key, attempt)
    broken = {problem.path.parent for problem in damages}  # attempts with a problem are not in the database
    damages += [p for p in verification.of_database(store) if p.path not in broken]
    if not damages:
        text = f"{attempts:,} attempts in {ledger.root} are whole, and the database is what a rebuild would give"
        return Result([text])
    notes = [f"{p.path}: {p.what}; {p.remedy}" for p in damages]
    notes.append(f"bench: {count(len(damages), 'problem')} in {ledger.root}, {attempts:,} attempts looked at")
    records = [{"path": str(p.path), "what": p.what, "what_to_do": p.remedy} for p in damages]
    return Result(records=records, notes=notes, exit_code=DataError.exit_code)
