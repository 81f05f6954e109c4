"""The report of distribution shift: its cells and intervals against the curves of the runs, and what is missing."""

import numpy as np
import pytest
import scored
from matplotlib.figure import Figure as Canvas
from safetensors.numpy import save
from scored import request, store, write_run

from harness import statistics
from harness.reporting.rendering import figures, render
from reports.figures.shift import ALL, Shift

UNITS = {
    "test_error": ("%", "min", None), "shift_test_error": ("%", "min", None), "shift_nll": ("nats", "min", None),
    "shift_ece": ("1", "min", None),
}  # fmt: skip
SHIFTS, SEEDS = ("noise", "sharp_turn"), 3


NAMES = {"arrays.safetensors": save({"shifts": np.frombuffer("\n".join(SHIFTS).encode(), dtype=np.uint8)})}


def curve(metric, shift, method, seed):
    start = 1 + len(metric) + 10 * (method == "csgld") + 0.1 * seed
    return np.arange(6.0), (start + (1 + SHIFTS.index(shift)) * np.arange(6.0))[None]


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(scored, "UNITS", {**scored.UNITS, **UNITS})
    written(tmp_path)
    return tmp_path


def written(results):
    for method in ("sgld", "csgld"):
        for seed in range(SEEDS):
            curves = {f"{m}_{s}": curve(m, s, method, seed) for m in UNITS if m != "test_error" for s in SHIFTS}
            write_run(
                results, method=method, task="digits", seed=seed, chains=1, curves=curves, files=NAMES,
                metrics={"test_error": 2.0, **{m: 5.0 for m in UNITS if m != "test_error"}},
            )  # fmt: skip


def built(results, tasks=()):
    return Shift().build(store(results), request(tasks=tasks))


def test_each_record_has_the_mean_and_the_interval_of_its_seeds(results):
    records = built(results).records
    assert len(records) == 3 * (len(SHIFTS) + 1) * 2 * 6
    for one in records:
        shifts = SHIFTS if one["shift"] == ALL else (one["shift"],)
        seeds = [
            np.mean([curve(one["metric"], s, one["method"], seed)[1][0, one["severity"]] for s in shifts])
            for seed in range(SEEDS)
        ]
        interval = statistics.mean_interval(seeds)
        assert [one[k] for k in ("mean", "low", "high")] == pytest.approx([interval.mean, interval.low, interval.high])
        assert one["seeds"] == SEEDS == len(one["run_keys"])


def test_a_table_for_each_metric_has_a_row_for_each_shift_and_method(results):
    whole = built(results)
    assert [table.title.partition(",")[0] for table in whole.tables] == ["test error (%)", "NLL", "ECE"]
    table = whole.tables[1]
    assert [(row["shift"], row["method"]) for row in table.rows] == [
        (shift, method) for shift in ("noise", "sharp turn", ALL) for method in ("csgld", "sgld")
    ]
    first = table.rows[1]
    values = [curve("shift_nll", "noise", "sgld", seed)[1][0] for seed in range(SEEDS)]
    assert first["0"].partition(" ")[0] == f"{np.mean(values, axis=0)[0]:.2f}"
    assert first["mean"].partition(" ")[0] == f"{np.mean(values, axis=0)[1:].mean():.2f}"
    assert "not divided by a baseline" in table.notes[0]
    for form in ("table", "csv", "latex", "html", "markdown"):
        assert render(whole, form)
    (figure,) = whole.figures
    assert len(figures.drawn(figure, "svg")[0]) <= figures.LIMIT
    canvas = Canvas(figsize=figure.size, layout="constrained")
    figure.draw(canvas)
    assert [ax.get_title() for ax in canvas.axes if ax.get_title()] == ["noise", "sharp turn", ALL]
    assert whole.records == built(results).records


def test_a_method_without_curves_or_with_a_seed_less_is_said_and_a_value_that_does_not_exist_is_no_number(results):
    metrics = {"test_error": 2.0, "shift_nll": 5.0}
    write_run(results, method="sghmc", task="digits", seed=0, chains=1, metrics=metrics, number=1)
    lost = {f"{m}_{s}": (np.arange(6.0), np.full((1, 6), np.nan)) for m in UNITS if m != "test_error" for s in SHIFTS}
    write_run(results, method="msgld", task="digits", seed=0, chains=1, metrics=metrics, curves=lost, number=2)
    whole = built(results)
    assert whole.notes == ["sghmc: no finished runs with scores by severity"]
    assert {record["mean"] for record in whole.records if record["method"] == "msgld"} == {None}
    assert {row["0"] for table in whole.tables for row in table.rows if row["method"] == "msgld"} == {"-"}


def test_other_tasks_are_left_alone(tmp_path):
    write_run(tmp_path, metrics={"modes_covered": 25.0})
    assert not built(tmp_path).notes
    assert "no shifted rows" in built(tmp_path, ("mixture25",)).notes[0]
