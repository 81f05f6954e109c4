"""`bench compare-on` and `Bench.compare_on`: the same tables, nothing done twice, and errors before the first step."""

import json
import re
import types
from pathlib import Path

import numpy as np
import pytest

from harness import Bench, UsageError
from harness.results import Status
from harness.runs import RunRequest
from harness.tasks import TUNING_SEED
from plugins.modelling import compare_on, search
from plugins.modelling.compare_on import Pace, Runs, planned_passes
from plugins.modelling.search import AROUND, DECADES, TRIALS, Candidate

MODEL = """
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
x = rng.normal(size=(60, 3)).astype(np.float32)
y = (x[:, 0] > 0).astype(int)
train, test = (x[:40], y[:40]), (x[40:], y[40:])
model = nn.Linear(3, 2)
samplers, chains, seeds = "sgld,deep-ensemble", 1, 5
weight_decay, batch = 0.01, 20


def noisy(row, severity, generator):
    return row + severity * generator.normal(size=row.shape)


shifts = {"noisy": noisy}
"""


@pytest.fixture
def bench(tmp_path, capsys, monkeypatch):
    """`bench --json` on a results folder of its own: exit code, records, stderr. The length of runs is given."""
    from harness.cli.app import run

    monkeypatch.setattr(compare_on, "affordable", lambda *_: 3.0)
    monkeypatch.setattr(search, "DECADES", DECADES[2:3])
    monkeypatch.setattr(search, "AROUND", AROUND[:1])
    (tmp_path / "my_model.py").write_text(MODEL)

    def command(*words):
        code = run(["--results", str(tmp_path / "r"), "--json", "compare-on", *map(str, words)])
        said = capsys.readouterr()
        return code, json.loads(said.out or "[]"), said.err

    return command


def test_one_command_gives_verdicts_settings_both_ways_and_costs_nothing_again(bench, tmp_path):
    code, records, said = bench(tmp_path / "my_model.py", "--workers", 1)
    assert code == 0
    assert {row["method"] for row in records} == {"sgld", "deep-ensemble"}
    assert "2 runs: 0 done before" in said
    for row in records:
        assert row["terms"] == 40
        assert row["prior_precision"] == pytest.approx(0.4)
        assert row["weight_decay"] == pytest.approx(0.01)
        assert row["chosen_by"] == "quick search"
        assert row["passes"] == pytest.approx(3.0)
        scale = 40 if row["method"] == "sgld" else 1  # Adam divides the gradient by its size
        assert row["learning_rate"] == pytest.approx(row["h"] * scale)
        assert "nll" in row
    (sentence,) = {row["sentence"] for row in records}
    assert sentence.startswith("Best by ")
    assert "deep-ensemble (baseline, quick search)" in sentence

    code, again, said = bench(tmp_path / "my_model.py", "--workers", 1)
    assert (code, again) == (0, records)
    assert "0 to do" in said
    assert not re.search(r"[1-9]\d* to do", said)

    given = Bench(tmp_path / "r").load(task=records[0]["task"])
    assert {*given.runs["seed"]} == {0, 1, 2, 3, 4}
    assert {*given.runs["status"]} == {str(Status.DONE)}
    assert {row["shift"] for row in given.report("shift").records} == {"noisy", "mean of all"}
    study = json.loads((tmp_path / "r" / "tuning" / "quick-search.json").read_text())
    assert [len(one["searches"]) for one in study["tuned"]] == [1, 1]
    assert not any(one["finalist_seeds"] for one in study["tuned"])


@pytest.mark.parametrize(
    ("change", "words", "code"),
    [
        ("", "", 2),
        ("del test", "does not define test", 2),
        ("1 / 0", "ZeroDivisionError", 3),
        ("y[3] = -1", "", 2),
        ("model = nn.Linear(4, 2)", "", 2),
        ("train = (x[:40], y[:39])", "train: x has 40 rows and y has 39", 2),
        ("x[5, 1] = np.nan", r"values that are not finite, the first at [5, 1]", 2),
        ("likelihood = 'gauss'", "likelihood 'gauss'", 2),
        ("prior_precision = 1.0", "give one of them", 2),
        ("budget = 'soon'", "budget 'soon'", 2),
        ("samplers = 'sgdl'", "did you mean sgd, sgld", 2),
    ],
)
def test_what_is_wrong_is_one_line_before_any_run_of_a_seed(bench, tmp_path, monkeypatch, change, words, code):
    if change:
        monkeypatch.undo()  # the speed is measured, on a run that tries everything
    file = tmp_path / "wrong.py"
    file.write_text(f"{MODEL}\n{change}\n")
    given, records, said = bench(file if change else tmp_path / "missing.py", "--workers", 1)
    assert (given, records) == (code, [])
    last = said.strip().splitlines()[-1]
    assert last.startswith("bench: ")
    assert words in last
    assert "Traceback" not in said
    seeds = [json.loads(path.read_text())["seed"] for path in (tmp_path / "r").rglob("spec.json")]
    assert all(seed >= TUNING_SEED for seed in seeds)


def test_the_time_is_shared_by_trials_and_runs_at_equal_data_passes():
    measured = [Pace(start=0.5, step=0.01, data_pass=0.1), Pace(start=0.5, step=0.02, data_pass=0.3)]
    runs = Runs(seeds=5, chains=4)
    passes = planned_passes(measured, [TRIALS, TRIALS], runs, 600.0)
    spent = sum((TRIALS + 5) * pace.start + (TRIALS + 20) * pace.data_pass * passes for pace in measured)
    assert 0.9 * 600 < spent <= 600
    assert pytest.approx(1 / 3) == TRIALS / (TRIALS + 20)
    assert planned_passes(measured, [0, 0], runs, 600.0) > passes
    assert planned_passes(measured, [TRIALS, TRIALS], runs, 3.0) == 0
    for seconds in (700.0, 7_000.0, 70_000.0):
        text = f"{planned_passes(measured, [TRIALS, TRIALS], runs, seconds):g}"
        assert len(text.rstrip("0")) <= 2


def test_the_search_refines_around_the_best_decade():
    request = types.SimpleNamespace(given={}, samplers=["sgld"])
    one = Candidate(request, "schedule.step_size", 1 / 1000)
    first = one.next_values()
    assert first == pytest.approx([rate / 1000 for rate in DECADES])
    one.losses.update(zip(first, [3.0, 2.0, 1.0, np.inf, np.inf, np.inf], strict=True))
    assert one.best == first[2]
    second = one.next_values()
    assert second == pytest.approx([first[2] * factor for factor in AROUND])
    one.losses.update(dict.fromkeys(second, 0.5))
    assert one.best in second
    lost = Candidate(request, "schedule.step_size", 1.0, dict.fromkeys(first, np.inf))
    assert lost.best is None
    assert lost.next_values() == []
    assert Candidate(request, "", 1.0).next_values() == []


def test_a_step_at_which_one_of_the_chains_diverges_is_not_chosen(monkeypatch):
    """One chain may be lucky at a step that is too large for the four of a run."""
    asked = []

    def run_tuning(_, requests, __):
        asked.extend((request.chains, request.given["schedule.step_size"]) for request in requests)
        return [(None, None if request.given["schedule.step_size"] > 0.01 else {}) for request in requests]

    monkeypatch.setattr(search, "run_tuning", run_tuning)
    request = RunRequest(["sgld"], ["mixture5"], chains=4, given={"schedule": "constant"})
    losses = {0.001: 3.0, 0.01: 2.0, 0.1: 0.5, 0.05: 1.0}
    large, whole = (Candidate(request, "schedule.step_size", 1.0, dict(values)) for values in (losses, {0.002: 1.0}))
    search.confirm(None, [large, whole, Candidate(request, "", 1.0)], "passes=5", [])
    assert (large.best, whole.best) == (0.01, 0.002)
    assert asked == [(4, 0.1), (4, 0.002), (4, 0.05), (4, 0.01)]


def test_arguments_that_exclude_each_other_are_refused(tmp_path):
    pair = (np.zeros((4, 2)), np.zeros(4, int))
    with pytest.raises(UsageError, match="give one of them"):
        Bench(tmp_path).compare_on(None, pair, pair, prior_precision=1.0, weight_decay=1.0)
    assert not list(tmp_path.iterdir())


def test_the_default_samplers_are_those_that_the_guide_names():
    guide = (Path(__file__).parents[2] / "docs/my-model.md").read_text(encoding="utf-8")
    (line,) = [one for one in guide.splitlines() if one.startswith("| `samplers` |")]
    assert line.strip(" |").rpartition(" | ")[2] == compare_on.DEFAULT.replace(",", ", ")
