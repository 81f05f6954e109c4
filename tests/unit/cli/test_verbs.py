"""The verbs: each is there, has its line of help, and costs nothing until it is used."""

from __future__ import annotations

import importlib
import subprocess
import sys
import typing

import pytest

from harness.cli.app import VERBS, run

HEAVY = {"torch", "numpy", "polars", "duckdb", "matplotlib", "scipy", "rich", "pluggy", "harness.contracts.registry"}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_of_its_own(verb, capsys):
    assert run([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Usage:")
    assert verb in text.splitlines()[0]
    assert len(text.split("Options:")[0].splitlines()) > 2


def test_every_number_has_a_range():
    seen = []
    for verb in VERBS:
        module = importlib.import_module(f"harness.cli.{verb}")
        verbs = [command.callback for command in module.app.registered_commands] if hasattr(module, "app") else []
        for function in verbs or [getattr(module, verb)]:
            for name, hint in typing.get_type_hints(function, include_extras=True).items():
                if name != "return" and typing.get_args(hint)[:1] in ((int,), (int | None,)):
                    option = hint.__metadata__[0]
                    assert 0 <= option.min < option.max < 2**63, (verb, name)
                    seen.append(name)
    assert {"chains", "workers", "until", "max_rows"} <= set(seen)


def test_the_help_has_every_verb_on_a_line_of_its_own(capsys):
    assert run(["--help"]) == 0
    shown = [line.strip() for line in capsys.readouterr().out.split("Commands:")[1].splitlines() if line]
    assert [line.split()[0] for line in shown] == list(VERBS)
    assert [line.split(maxsplit=1)[1] for line in shown] == list(VERBS.values())


def test_the_help_imports_no_verb_and_nothing_heavy():
    program = "import sys; from harness.cli.app import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = set(done.stderr.split())
    assert not imported & HEAVY
    assert {name for name in imported if name.startswith("harness.cli.")} == {"harness.cli.app", "harness.cli.context"}
