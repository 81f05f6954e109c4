"""The commands of docs/tutorial.md, in their order and as they stand there, and what the page says that they show."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support import bench_here, bench_words, importable

from harness.reports import Request
from harness.results.store import Store
from plugins.checking.check import LONG
from reports.tables.leaderboard import Leaderboard

HERE = ("new", "show", "report", "compare")
"""Verbs that are done in this process."""
LONGER = ("compiled", "real-loop", *LONG)

TUTORIAL = (Path(__file__).parents[2] / "docs/tutorial.md").read_text()


def blocks():
    """(language, text) of every block."""
    return re.findall(r"```(\w+)\n(.*?)```", TUTORIAL, flags=re.DOTALL)


def commands():
    """The words of every command."""
    return [shlex.split(line) for language, text in blocks() if language == "sh" for line in text.splitlines()]


def follow(folder, site, *, whole):
    """Do what the page says, from top to bottom: each command's first words -> what it printed.

    Unless it is `whole`, `bench check` is left out, and the tests of the package check all laws but the longest.
    """
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {name: value for name, value in os.environ.items() if name != "BENCH_RESULTS"} | {"PYTHONPATH": path}
    printed = {}
    for language, text in blocks():
        if language == "python":
            written = text.partition("\n")[0].removeprefix("# ")
            assert (folder / written).is_file(), written  # the page replaces what `bench new` wrote
            (folder / written).write_text(text)
        for line in text.splitlines() if language == "sh" else []:
            if line.startswith("bench check") and not whole:
                continue
            words = shlex.split(line)
            if words[:1] == ["bench"] and words[1] in HERE:
                with importable(site), contextlib.chdir(folder):
                    code, out, err = bench_here(folder / "bench-results", *words[1:])
                assert code == 0, (line, out + err)
                printed[" ".join(words[:2])] = out
                continue
            words = in_this_environment(words, site, LONGER if whole else LONG)
            call = subprocess.run(
                words, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
            )
            assert call.returncode == 0, (line, call.stdout + call.stderr)
            printed[" ".join(line.split()[:2])] = call.stdout
    return printed


def in_this_environment(words, site, left_out):
    """The same command by this interpreter; pip installs into a folder, from what is on this machine.

    The tests of the package leave some laws out.
    """
    if words[0] == "bench":
        return bench_words(*words[1:])
    if words[:2] == ["pip", "install"]:
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--target", str(site)]
        return [sys.executable, "-m", "pip", "install", *options, *(word for word in words[2:] if word != "-e")]
    assert words[:3] == ["python", "-m", "pytest"], words
    return [sys.executable, *words[1:], "-k", f"not ({' or '.join(left_out)})"]


def test_the_page_goes_from_a_new_package_to_a_comparison():
    verbs = [words[1] if words[0] == "bench" else words[0] for words in commands()]
    assert verbs == ["new", "pip", "show", "check", "python", "run", "report", "compare"]


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["quick", "whole"])
def test_its_commands_show_what_it_says(tmp_path, whole):
    (tmp_path / "site").mkdir()
    printed = follow(tmp_path, tmp_path / "site", whole=whole)
    assert "T / lambda at every stable step size" in printed["bench show"]
    if whole:
        outcomes = [line.split()[2] for line in printed["bench check"].splitlines()[2:]]
        assert len(outcomes) > 8
        assert set(outcomes) == {"passed"}
    assert re.search(rf"\d+ passed, {len(LONGER if whole else LONG)} deselected", printed["python -m"])
    assert re.search(r"^\s*\d\s+averaged\s+(best|tied)\s", printed["bench report"], flags=re.MULTILINE)
    (row,) = [line for line in printed["bench compare"].splitlines() if line.startswith("averaged")]
    assert "better," in row.split()
    check_records(Store(tmp_path / "bench-results"))


def check_records(store):
    """Both are ranked, and their draws are as wide as the page says."""
    records = Leaderboard().build(store, Request()).records
    rows = [record for record in records if record["ranked_by"]]
    assert {(row["method"], row["seeds"]) for row in rows} == {("averaged", 30), ("sgld", 30)}
    assert all(row["rank"] is not None for row in rows), rows
    ratio = {record["method"]: record for record in records if record["metric"] == "within_mode_covariance_ratio"}
    assert ratio["averaged"]["high"] < ratio["sgld"]["low"]
    for method, record in ratio.items():
        assert f"{record['mean']:.2f} for `{method}`" in " ".join(TUTORIAL.split())
