"""`bench gc`: list or delete unreferenced files in the results folder."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from harness import Bench, DataError, Result
from harness.reporting import table
from harness.reports import Store
from harness.results import Ledger
from harness.results.ledger.ledger import TRASH
from harness.system import count, locks
from plugins.upkeep import garbage


def gc(
    bench: Bench,
    delete: Annotated[bool, typer.Option("--delete", help="Delete what is listed.")] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Also failed attempts of runs that a later attempt finished.")
    ] = False,
) -> Result:
    """List what can be deleted from the results folder, and why; with --delete, delete it.

    It keeps results, attempts that can be resumed, runs with a running worker, and all files and folders that do not
    have the names and structure that bench writes. Links are not followed. If it is interrupted, repeat the command.

    Examples:
        bench gc
        bench gc --delete
    """
    ledger = bench.ledger
    ledger.check_version()
    items = garbage.find(ledger, failed=failed)
    notes: list[str] = []
    if delete and items:
        if ledger.locks.is_symlink():
            raise DataError(f"{ledger.locks} is a link, and nothing is deleted through a link; replace it by a folder")
        ledger.locks.mkdir(exist_ok=True)
        with locks.lock_file(ledger.lock("gc"), garbage.LOCK_TIMEOUT_SECONDS):
            items, notes = garbage.remove(ledger, items, failed=failed)
            notes += _forget(ledger)
    rows = [{"path": str(item.path.relative_to(ledger.root)), "bytes": item.bytes, "why": item.why} for item in items]
    total = f"{count(len(items), 'thing')}, {sum(item.bytes for item in items) / 1e6:,.1f} MB"
    total += " deleted" if delete else "; nothing was deleted, `bench gc --delete` does that"
    tables = [table(rows, ["path", "why", "bytes"])] if rows else []
    return Result(tables, rows, notes=[*(f"note: {note}" for note in notes), total], changed=delete)


def _forget(ledger: Ledger) -> list[str]:
    """Remove the deleted attempts from the database, then delete the trash folder; return notes."""
    notes: list[str] = []
    trash = ledger.root / TRASH
    store = Store(ledger.root)
    if store.path.exists() and trash.exists():
        notes = store.refresh()
    if not store.aside:
        with suppress(OSError):
            trash.rmdir()
    return notes
