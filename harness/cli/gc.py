"""`bench gc`: list what lies in the results folder and nobody will ask for again; delete it if told to."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli import context
from harness.cli.options import Json
from harness.errors import DataError
from harness.ledger import garbage
from harness.ledger.ledger import Ledger


def gc(
    delete: Annotated[bool, typer.Option("--delete", help="Delete what is listed.")] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Also failed attempts at runs that a later attempt finished.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List what can go from the results folder, and why; with --delete, delete it.

    Never a result, never an attempt that could be gone on with, never anything of a run that a worker has.
    """
    ledger = Ledger(context.current().results)
    ledger.check_version()
    found = garbage.find(ledger, failed=failed)
    notes: list[str] = []
    if delete:
        found, notes = garbage.remove(ledger, found, failed=failed)
    rows = [{"path": str(item.path.relative_to(ledger.root)), "bytes": item.bytes, "why": item.why} for item in found]
    if as_json:
        context.print_json(rows)
    elif rows:
        context.print_rows(rows, ["bytes", "path", "why"])
    for note in notes:
        context.say(f"note: {note}")
    total = f"{context.count(len(found), 'thing')}, {sum(item.bytes for item in found) / 1e6:,.1f} MB"
    context.say(f"{total} deleted" if delete else f"{total}; nothing was deleted, `bench gc --delete` does that")
    if any(item.is_attempt for item in found) and delete:
        _forget(ledger)


def _forget(ledger: Ledger) -> None:
    """Make the database anew without the attempts that went."""
    from harness.store import Store

    store = Store(ledger.root)
    if not store.path.exists():
        return
    try:
        store.rebuild(context.plugins().papers())
    except DataError as error:
        context.say(f"note: {error}; `bench ingest --rebuild` makes it forget the attempts that went")
