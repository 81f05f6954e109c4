"""The trials of tuning against the step size: the good range of known objectives, in units of the stability limit."""

import pytest
import scored
from scored import store, write_run

from harness import registry
from harness.reporting.rendering import figures
from harness.reporting.report import Request
from harness.system.errors import UsageError
from harness.tasks import ALL_ROWS_SEED, TUNING_SEED
from reports.figures.sensitivity import Sensitivity
from reports.tables.leaderboard import Leaderboard
from tasks.synthetic.mixture25 import Mixture25

TRIALS = {0.001: 0.8, 0.004: 0.19, 0.01: 0.1, 0.02: 0.15, 0.05: 0.5}


def write(results, method, step, objective, status="done", number=0):
    for seed in range(2):
        metrics = {"joint_error": objective * (0.9 + 0.2 * seed)} if status == "done" else None
        params = {"step_size": step, "temperature": 1.0}
        write_run(results, method=method, seed=TUNING_SEED + seed, metrics=metrics, params=params, status=status,
                  number=number)  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    for step, objective in TRIALS.items():
        write(folder, "sgld", step, objective)
    write(folder, "sgld", 0.2, 0.0, status="diverged")
    for step, objective in ((0.01, 0.3), (0.02, 0.2)):
        write(folder, "msgld", step, objective)
    return store(folder)


def test_the_good_range_is_of_trials_within_twice_the_best(results):
    built = Sensitivity().build(results, Request(registry=registry()))
    sgld, msgld = built.records
    assert (sgld["method"], sgld["best_step"], sgld["trials"], sgld["diverged_trials"]) == ("sgld", 0.01, 6, 1)
    assert (sgld["good_low"], sgld["good_high"]) == (0.004, 0.02)
    assert not sgld["good_low_open"]
    assert not sgld["good_high_open"]
    assert sgld["best"] == pytest.approx(0.1)
    limit = 2 / Mixture25().curvature()
    assert sgld["good_high_of_limit"] == pytest.approx(0.02 / limit, rel=1e-4)
    assert msgld["good_low_open"]  # no trial outside: the range is at least this
    assert msgld["good_high_open"]
    row = built.tables[0].rows[1]
    assert row["good"] == "<0.0100 to >0.0200"


def test_other_reports_leave_trials_out_and_this_one_the_reported_runs(results, tmp_path):
    assert not Leaderboard().build(results, Request()).records
    write_run(tmp_path, metrics={"joint_error": 0.1})
    built = Sensitivity().build(store(tmp_path), Request())
    assert not built.records
    assert "bench tune" in built.notes[0]


def test_without_plugins_there_is_no_limit_and_an_unknown_metric_is_refused(results):
    built = Sensitivity().build(results, Request())
    assert built.records[0]["stability_limit"] is None
    with pytest.raises(UsageError, match="no trial has the metric"):
        Sensitivity().build(results, Request(metric="rhat"))


def test_every_method_has_a_row_best_first_and_the_best_have_lines(tmp_path):
    methods = ("sgld", "msgld", "hmc", "baoab", "sghmc", "psgld", "asgld", "sgnht", "csgld", "santa")
    for rank, method in enumerate(methods):
        for step, factor in ((0.01, 1.0), (0.02, 3.0)):
            write(tmp_path, method, step, factor * (rank + 1))
    write(tmp_path, "santa", 0.2, 0.0, status="diverged")
    built = Sensitivity().build(store(tmp_path), Request())
    above, below = figures.picture(built.figures[0]).axes
    assert [label.get_text() for label in below.get_yticklabels()] == list(methods)
    assert [float(text.get_text()) for text in below.texts] == list(range(1, 11))
    lines = [line for line in above.get_lines() if line.get_linestyle() != "None"]
    assert len(lines) == 8
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 8
    (lost,) = [line for line in below.get_lines() if line.get_marker() == "x"]
    assert (lost.get_xdata().tolist(), lost.get_ydata().tolist()) == ([0.2], [methods.index("santa")])


@pytest.mark.parametrize(
    ("first", "metric", "best"), [(TUNING_SEED, "nll", 0.01), (ALL_ROWS_SEED, "joint_error", 0.02)]
)
def test_the_objective_is_that_of_the_search(tmp_path, monkeypatch, first, metric, best):
    monkeypatch.setitem(scored.UNITS, "nll", ("nats", "min", None))
    for step, nll in ((0.01, 0.5), (0.02, 0.7)):
        write_run(tmp_path, seed=first, metrics={"joint_error": 1 / nll, "nll": nll},
                  params={"step_size": step, "temperature": 1.0})  # fmt: skip
    (record,) = Sensitivity().build(store(tmp_path), Request()).records
    assert (record["metric"], record["best_step"]) == (metric, best)


def test_negative_values_have_a_good_range_and_other_schedules_are_named(tmp_path):
    for k, step in enumerate((0.1, 0.2, 0.3)):
        values = {"joint_error": -1.0 - 0.9 * k}
        write_run(tmp_path, seed=TUNING_SEED, metrics=values, params={"step_size": step, "temperature": 1.0})
    write_run(tmp_path, method="psgld", seed=TUNING_SEED, metrics=values, params={"a": 0.1, "temperature": 1.0})
    built = Sensitivity().build(store(tmp_path), Request(registry=registry()))
    assert [(one["method"], one["good_low"], one["good_high"]) for one in built.records] == [("sgld", 0.1, 0.3)]
    low, high = figures.picture(built.figures[0]).axes[0].get_ylim()
    assert low < -2.8
    assert high > -1.0
    assert built.notes == ["left out, because their schedule has no step_size: psgld on mixture25"]
