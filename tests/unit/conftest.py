"""Fixtures of the unit tests."""

from __future__ import annotations

import signal

import pytest


@pytest.fixture
def ledger(tmp_path):
    """A results folder without runs."""
    from harness.results.ledger.ledger import Ledger

    made = Ledger(tmp_path / "results")
    made.prepare()
    return made


@pytest.fixture
def no_hang():
    """What blocks for ever, on a pipe say, is a failure after a minute."""

    def late(*_):
        pytest.fail("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
