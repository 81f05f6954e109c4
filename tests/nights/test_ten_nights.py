"""Many nights in a row, with a clock of the test: what is printed, which exit code, and what the pages show of them."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from nights import TINY, fabricate, write_suite

from harness.cli.app import run
from harness.contracts.registry import registry
from harness.reports import Request, number
from harness.runs import plan
from harness.runs.source import source_hash
from plugins.nights import nightly
from plugins.nights.regression import conclusion
from plugins.nights.site import build

ROW = "sgld on mixture5@adaptive-drift, smoke, 8 chains"


def times(factor, shift=0):
    """The metrics of a run: those of sgld are `factor` times the first night's, with noise by night and seed."""

    def values(spec):
        noise = 1 + 0.015 * np.random.default_rng([shift, spec.seed]).standard_normal()
        change = factor * noise if spec.method == "sgld" else 1.0
        return {"wasserstein2": change * (1 + 0.01 * spec.seed), "modes_covered": 4.0 + spec.seed % 2}

    return values


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """A night of a suite, on new code if `values` are given: exit code, stdout, and what the pages are made from.

    The pages themselves are not written, and the laws are not run.
    """
    monkeypatch.chdir(tmp_path)
    suite = write_suite(tmp_path, TINY.replace('"coverage", ', ""))
    days, published = itertools.count(1), {}

    def publish(site, _, lines, store, *__):
        published.update(site=site, lines=lines, store=store)
        return {}

    alone = {"publish": publish, "made_from": lambda *_: "", "about": lambda _: [], "code_of": lambda _: []}
    for name, function in alone.items():
        monkeypatch.setattr(conclusion, name, function)
    monkeypatch.setattr(conclusion, "now", lambda: f"2026-03-{next(days):02d}T02:17:00+00:00")
    monkeypatch.setattr(nightly.outcomes, "make", lambda *_: None)

    def night(values=None, *more, code="", **details):
        if values is not None:
            monkeypatch.setattr(plan, "source_hash", lambda target: source_hash(target)[:-8] + code * 8)
            fabricate(tmp_path / "r", suite, values, **details)
        capsys.readouterr()
        status = run(["--results", str(tmp_path / "r"), "nightly", str(suite), "--out", str(tmp_path / "site"), *more])
        return status, capsys.readouterr().out.splitlines(), published

    return night


@pytest.mark.slow
def test_mail_comes_exactly_where_something_changed(bench):
    first = times(1.0)
    assert bench(first, code="a")[:2] == (0, [])
    assert bench()[:2] == (0, [])
    code, (line,), published = bench(times(1.5, shift=1), code="b")
    assert (code, line.startswith(f"{ROW}: wasserstein2 is worse: ")) == (5, True)
    assert bench()[:2] == (5, []), "an open regression is printed once"
    code, (line,), _ = bench(first, code="c")
    assert (code, line) == (0, f"{ROW}: wasserstein2 is no longer worse")
    assert bench()[:2] == (0, []), "and so is its end"
    rounded = lambda spec: {name: value * (1 + 1e-10) for name, value in first(spec).items()}  # noqa: E731
    assert bench(rounded, code="d", cpu="another", torch="3.0")[:2] == (0, []), "another machine rounds otherwise"
    lines = []
    for i, creep in enumerate((1.02, 1.035, 1.05, 1.065, 1.08)):
        code, more, published = bench(times(creep, shift=i + 2), code="efghi"[i])
        lines += more
    assert code == 5
    assert len(lines) == 1, lines
    (line,) = lines
    assert line.startswith(f"{ROW}: wasserstein2 is worse: ")
    assert bench(None, "--accept")[:2] == (0, [])
    assert bench()[:2] == (0, [])
    assert bench(times(1.08, shift=9), code="m")[:2] == (0, []), "what was accepted is the reference"
    nights, moves = published["lines"][0].tables
    assert [row["date"][:10] for row in nights.rows[:2]] == ["2026-03-10", "2026-03-09"]
    assert sum(row["outcome"] == "worse" for row in moves.rows) >= 2


def test_the_page_and_the_data_of_a_night_have_the_numbers_of_the_leaderboard(bench):
    """For every row and metric, also the joint error, which is of the chains of all seeds and no mean over seeds."""

    def errors(spec, factor=1.0):
        return factor * (1 + spec.seed / 4) * np.random.default_rng(spec.seed).standard_normal((8, 6)) / 10

    def values(spec, factor=1.0):
        joint = float((errors(spec, factor) ** 2).mean(axis=0).max())
        return {"wasserstein2": factor * (1 + 0.1 * spec.seed), "joint_error": joint}

    bench(values, code="a", errors=errors)
    code, lines, published = bench(lambda spec: values(spec, 2.0), code="b", errors=lambda spec: errors(spec, 2.0))
    night = published["site"].changes.result
    board = build.section("leaderboard", Request(registry=registry()), published["store"]).result.records
    shown = {(record["label"], record["metric"]): record["mean"] for record in board}
    compared = [record for record in night.records if record["tonight"] is not None]
    assert {record["metric"] for record in compared} == {"wasserstein2", "joint_error"}
    for record in compared:
        assert record["tonight"] == pytest.approx(shown[record["row"].partition(" ")[0], record["metric"]], rel=1e-9)
        assert record["effect"] == pytest.approx(4.0 if record["metric"] == "joint_error" else 2.0)
        assert record["main"] == (record["metric"] == "joint_error")
    assert (code, len(lines)) == (5, 4)
    assert [*published["site"].lead][1:] == lines, "all regressions are at the top of the page"
    table = next(part for part in night.tables if part.title == "Against the reference")
    for row in table.rows:
        assert row["tonight"] == number(shown[row["row"].partition(" ")[0], row["metric"]])


def test_the_cron_line_mails_findings_and_broken_commands_and_is_silent_otherwise(tmp_path):
    """The line of docs/nightly.md, with a command in place of `bench` that prints and exits as it is told."""
    text = (Path(__file__).parents[2] / "docs" / "nightly.md").read_text()
    line = re.search(r"^17 2 \* \* \*  (.+)$", text, re.MULTILINE).group(1)
    assert "%" not in line, "which cron reads as a new line"
    folder = tmp_path / "bench" / "venv" / "bin"
    folder.mkdir(parents=True)
    for status, printed, mail in ((0, "", ""), (5, "", ""), (1, "", ""), (5, "worse", "worse"), (3, "", "exit 3")):
        (folder / "bench").write_text(f'#!/bin/sh\n[ -z "{printed}" ] || echo "{printed}"\nexit {status}\n')
        (folder / "bench").chmod(0o755)
        user = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        answer = subprocess.run(["/bin/sh", "-c", line], capture_output=True, env=user, text=True, check=False)
        assert (answer.stdout.strip().partition(":")[0], answer.stderr) == (mail, "")
