"""What a shell completes, and `bench --version`: without torch and without the code of a plugin."""

import importlib.metadata
import os
import subprocess
import sys

import pytest

from harness.cli.app import VERBS, _command, run
from harness.contracts.registry import registry
from harness.results.provenance import digest

BENCH = "import sys; sys.argv[0] = 'bench'; from harness.cli import main; main()"
NAMED = {"sampler", "task", "method", "schedule", "suite", "paper", "budget", "names", "words"}
"""Parameters whose values have names that a shell can know."""


def bench(*, code=BENCH, **variables):
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def completed(line):
    words = line.split(" ")
    return bench(_BENCH_COMPLETE="complete_bash", COMP_WORDS="\n".join(words), COMP_CWORD=str(len(words) - 1)).split()


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("bench run --sampler hmc,csgh", ["hmc,csghmc", "hmc,csghmc-prec"]),
        ("bench run --task mixture", ["mixture25", "mixture2d", "mixture5"]),
        ("bench report leader", ["leaderboard"]),
        ("bench nightly smo", ["smoke"]),
        ("bench data fet", ["fetch"]),
        ("bench --format mark", ["markdown"]),
    ],
)
def test_bash_completes(line, completions):
    assert completed(line) == completions


def test_names_are_completed_without_torch_and_without_the_code_of_plugins():
    heavy = "bad = {'torch', 'numpy', 'polars', 'rich', 'plugins.samplers.sgld', 'tasks.synthetic.mixture5'}"
    code = f"import atexit, sys; {heavy}\natexit.register(lambda: print(bad & set(sys.modules)))\n{BENCH}"
    out = bench(code=code, _BENCH_COMPLETE="complete_bash", COMP_WORDS="bench\nrun\n--sampler\nsgl", COMP_CWORD="3")
    assert out.splitlines() == ["sgld", "sgld-cv", "sgld-svrg", "sglrw", "set()"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script(shell):
    assert "_BENCH_COMPLETE=complete_" + shell in bench(_BENCH_COMPLETE=f"source_{shell}")


def test_every_parameter_with_a_known_set_of_names_completes_them():
    seen = set()
    for verb in [*VERBS, *(info.name for info in registry().offers("verbs"))]:
        whole = _command(verb, ())
        for command in getattr(whole, "commands", {"": whole}).values():
            with command.make_context(verb, [], resilient_parsing=True) as ctx:
                for parameter in command.params:
                    if parameter.name in NAMED:
                        assert parameter.shell_complete(ctx, ""), (verb, parameter.name)
                        seen.add(parameter.name)
    assert seen == NAMED


def test_the_version_is_shown_with_any_command(capsys):
    for words in (["--version"], ["ls", "samplers", "--version"]):
        assert run(words) == 0
        known = (importlib.metadata.version("sgmcmc-bench"), importlib.metadata.version("torch"))
        source = digest("sgmcmc-bench")[:12]
        shown = f"bench {known[0]} (source {source}), Python {sys.version.split()[0]}, torch {known[1]}\n"
        assert capsys.readouterr().out == shown
