"""`bench time`: seconds in comparisons come from a timing pass, never from the clocks of runs."""

import json
from types import SimpleNamespace

import pytest
from scored import request, store, time_rows, write_run

from harness import BenchError
from harness.cli.app import run as bench
from harness.reporting.scores import load_groups
from plugins.upkeep import timing


def leaderboard(folder, capsys):
    capsys.readouterr()
    assert bench(["--results", str(folder), "--json", "report", "leaderboard"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_seconds_of_a_row_are_those_of_the_timing_pass(tmp_path, capsys):
    where = ["--results", str(tmp_path)]
    words = ["--task", "gaussian2d", "--budget", "steps=400", "--seeds", "0-1", "--set", "schedule.step_size=0.01"]
    assert bench([*where, "run", "--sampler", "sgld,sghmc", *words]) == 0
    assert {row["seconds"] for row in leaderboard(tmp_path, capsys)} == {None}
    assert bench([*where, "report", "leaderboard", "--columns", "method,seconds"]) == 0
    assert capsys.readouterr().out.count("not timed") == 2
    assert bench([*where, "--json", "time"]) == 0
    timed = {row["group"]: row["seconds_a_step"] for row in json.loads(capsys.readouterr().out)}
    assert len(timed) == 2
    assert min(timed.values()) > 0
    rows = leaderboard(tmp_path, capsys)
    assert {row["group"]: row["seconds"] for row in rows} == {key: 400 * pace for key, pace in timed.items()}


def test_the_clock_of_a_run_is_in_no_report(tmp_path):
    """The made-up runs say 50 s of sampling; a group that was timed has its own seconds, another none."""
    for method in ("sgld", "csgld"):
        write_run(tmp_path, method=method, metrics={"modes_covered": 3.0})
    time_rows(tmp_path, 3.0)
    first, second = load_groups(store(tmp_path), request())
    (tmp_path / "timings" / f"{second.key}.json").write_text('{"seconds_a_step": 1.0, "machine": "x", "sha256": "0"}')
    seconds = {group.key: group.seconds for group in load_groups(store(tmp_path), request())}
    assert seconds == {first.key: 3.0, second.key: None}


def test_a_row_is_timed_by_a_run_that_ended(tmp_path, monkeypatch):
    write_run(tmp_path, seed=0, status="error")
    write_run(tmp_path, seed=1, metrics={"modes_covered": 3.0})
    timed = []

    def asked(attempt, *_, **__):
        timed.append(attempt.path)
        raise BenchError("enough")

    monkeypatch.setattr(timing, "request", asked)
    assert bench(["--results", str(tmp_path), "time"]) == 0
    (path,) = timed
    assert json.loads((path / "spec.json").read_text())["seed"] == 1


class Row:
    """A loop in the place of a row's: a step takes `pace` seconds, and a block has ten."""

    def __init__(self, pace, turns):
        self.clock, self.done, self.finished = SimpleNamespace(sampling=0.0), 0, False
        self.pace, self.turns = pace, turns

    def advance_block(self):
        self.turns.append(self.pace)
        self.done, self.clock.sampling = self.done + 10, self.clock.sampling + 10 * self.pace
        self.finished = self.done >= 30


def test_rows_take_turns(monkeypatch):
    turns = []
    paces = {"fast": 0.001, "slow": 0.1}
    monkeypatch.setattr(timing, "prepare", lambda _: None)
    monkeypatch.setattr(timing, "replace", lambda spec, **_: spec)
    monkeypatch.setattr(timing, "build", lambda specs, _: Row(paces[specs[0]], turns))
    measured = timing.measure(SimpleNamespace(specs=list(paces)), lambda *_: None)
    assert measured == pytest.approx(list(paces.values()))
    # A turn of the fast row ends with its run of three blocks, one of the slow row with its first block.
    assert turns == [0.001, 0.001, 0.001, 0.1] * timing.TURNS
