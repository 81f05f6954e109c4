"""How reading verbs get at the results: what is new is ingested first, and what could not be is said."""

from __future__ import annotations

from harness.cli import context
from harness.results.ledger.ledger import Ledger
from harness.results.store import Store


def opened() -> Store:
    """The store of this command's results folder, up to date."""
    Ledger(context.current().results).check_version()
    store = Store(context.current().results)
    for note in store.refresh(context.plugins().papers()):
        context.say(f"note: {note}")
    return store
