"""`bench ingest`: bring the database up to date with the runs on disk."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli import context
from harness.cli.options import Json
from harness.errors import DataError
from harness.ledger.ledger import Ledger
from harness.store import Store


def ingest(
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make the database anew from the runs.")] = False,
    as_json: Json = False,
) -> None:
    """Ingest what is new. Reading verbs do it themselves; with --rebuild the database is made anew from the ledger."""
    Ledger(context.current().results).check_version()
    store = Store(context.current().results)
    papers = context.plugins().papers()
    notes = store.rebuild(papers) if rebuild else store.refresh(papers)
    for note in notes:
        context.say(f"note: {note}")
    if store.aside and store.results.is_dir():
        raise DataError(
            f"{store.path} was not brought up to date; the runs are safe, and the same command does it later"
        )
    rows = store.rows("select status, count(*) as attempts from attempt group by status order by status")
    if as_json:
        context.print_json(rows)
    else:
        context.print_rows(rows, ["status", "attempts"])
