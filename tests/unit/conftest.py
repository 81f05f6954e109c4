"""Fixtures of the unit tests."""

from __future__ import annotations

import json
import signal
import sys

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


@pytest.fixture
def bench_with(tmp_path, capsys):
    """`bench --json` with a plugin file of this module name and text: exit code, records and stderr of its words."""
    from harness.cli.app import run
    from harness.contracts.registry import registry

    modules = []

    def made(module, text):
        plugin = tmp_path / f"{module}.py"
        plugin.write_text(text)
        modules.append(module)

        def command(*words):
            code = run(["--results", str(tmp_path / "r"), "--plugin", str(plugin), "--json", *map(str, words)])
            said = capsys.readouterr()
            return code, json.loads(said.out or "[]"), said.err

        return command

    yield made
    for module in modules:
        sys.modules.pop(module, None)
    registry.cache_clear()
