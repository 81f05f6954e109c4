"""What a shell completes, and `bench --version`: without torch and without the code of a plugin."""

import importlib.metadata
import os
import subprocess
import sys

import pytest

from harness.cli.app import run
from harness.results.provenance import digest

BENCH = "import sys; sys.argv[0] = 'bench'; from harness.cli import main; main()"


def bench(*, code=BENCH, **variables):
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def completed(line, **how):
    words = line.split(" ")
    asked = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    return bench(_BENCH_COMPLETE="complete_bash", **asked, **how).split()


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("bench run --sampler hmc,csgh", ["hmc,csghmc", "hmc,csghmc-prec"]),
        ("bench report leader", ["leaderboard"]),
        ("bench data fet", ["fetch"]),
        ("bench --format mark", ["markdown"]),
    ],
)
def test_bash_completes(line, completions):
    assert completed(line) == completions


def test_names_are_completed_without_torch_and_without_the_code_of_plugins():
    heavy = "bad = {'torch', 'numpy', 'polars', 'rich', 'plugins.samplers.sgld', 'tasks.synthetic.mixture5'}"
    code = f"import atexit, sys; {heavy}\natexit.register(lambda: print(bad & set(sys.modules)))\n{BENCH}"
    names = ["sgld", "sgld-cv", "sgld-svrg", "sglrw", "set()"]
    assert completed("bench run --sampler sgl", code=code) == names


def test_a_shell_gets_a_script():
    assert "_BENCH_COMPLETE=complete_zsh" in bench(_BENCH_COMPLETE="source_zsh")


def test_the_version_is_shown_with_any_command(capsys):
    for words in (["--version"], ["ls", "samplers", "--version"]):
        assert run(words) == 0
        known = (importlib.metadata.version("sgmcmc-bench"), importlib.metadata.version("torch"))
        source = digest("sgmcmc-bench")[:12]
        shown = f"bench {known[0]} (source {source}), Python {sys.version.split()[0]}, torch {known[1]}\n"
        assert capsys.readouterr().out == shown
