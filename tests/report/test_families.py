"""Groups that differ in one thing: temperatures, (M, beta), and chains that cost the same in all."""

import numpy as np
import pytest
from scored import UNITS, store, write_run

from harness import UsageError
from harness.reporting.rendering import figures
from harness.reporting.report import Request
from reports.figures.parts import families
from reports.figures.tempering import Tempering
from reports.tables.cycle_beta import CycleBeta
from reports.tables.equal_cost import EqualCost

NOISE = np.random.default_rng(0).normal(size=6)


@pytest.fixture(autouse=True)
def units(monkeypatch):
    monkeypatch.setitem(UNITS, "test_error", ("%", "min", None))
    monkeypatch.setitem(UNITS, "nll", ("nats", "min", None))


def write(results, error, seeds=3, number=0, **changes):
    """Runs whose test error is near `error`, the same noise in each seed."""
    for seed in range(seeds):
        metrics = {"test_error": error + 0.1 * NOISE[seed], "nll": error / 10 + 0.01 * NOISE[seed]}
        write_run(results, seed=seed, metrics=metrics, number=number, **{"chains": 1, **changes})


def schedule(**settings):
    return {"step_size": 0.02, "temperature": 1.0, "cycles": 4, "beta": 0.8, **settings}


def test_temperatures_are_compared_where_nothing_else_differs(tmp_path):
    for k, (temperature, error) in enumerate([(0.0, 4.0), (0.1, 3.0), (1.0, 5.0)]):
        write(tmp_path, error, method="csgld", params=schedule(temperature=temperature), number=k)
    write(tmp_path, 9.0, method="csgld", params=schedule(temperature=0.5, step_size=0.03), number=3)
    write(tmp_path, 9.0, method="sgld", number=4)
    built = Tempering().build(store(tmp_path), Request())
    rows = [(r["temperature"], r["metric"], r["seeds"]) for r in built.records]
    assert rows == [(t, metric, 3) for metric in ("nll", "test_error") for t in (0.0, 0.1, 1.0)]
    means = [record["mean"] for record in built.records if record["metric"] == "test_error"]
    assert means == pytest.approx(np.array([4, 3, 5]) + 0.1 * NOISE[:3].mean())
    assert [row["T"] for row in built.tables[0].rows] == [0.0, 0.1, 1.0]
    (figure,) = built.figures
    written = figures.drawn(figure, "svg", "png")
    assert written == figures.drawn(figure, "svg", "png")
    with pytest.raises(UsageError, match="unknown metric"):
        Tempering().build(store(tmp_path), Request(metric="test_eror"))


def test_a_temperature_that_diverged_has_a_row_and_no_point(tmp_path):
    write(tmp_path, 4.0, method="csgld", params=schedule(temperature=1.0), seeds=1)
    for seed in range(2):
        write_run(tmp_path, method="csgld", chains=1, seed=seed, params=schedule(temperature=9.0), status="diverged")
    built = Tempering().build(store(tmp_path), Request())
    assert [row["test_error"] for row in built.tables[0].rows][1] == "-"
    assert any("diverged at step 120" in note for note in built.tables[0].notes)
    figures.drawn(built.figures[0], "svg", "png")


def test_families_of_one_method_are_told_apart(tmp_path):
    from harness.reports import load_groups

    for k, (step, temperature) in enumerate([(0.01, 0.1), (0.01, 1.0), (0.02, 0.1), (0.02, 1.0)]):
        write(tmp_path, 3.0, method="csgld", params=schedule(step_size=step, temperature=temperature), number=k)
    by_family = families(load_groups(store(tmp_path), Request()), "schedule.temperature")
    assert sorted(by_family) == ["csgld (schedule.step_size=0.01)", "csgld (schedule.step_size=0.02)"]
    assert all(len(members) == 2 for members in by_family.values())


def test_cycles_and_beta_make_a_table_with_a_cell_each(tmp_path):
    for k, (cycles, beta) in enumerate([(2, 0.5), (2, 0.8), (4, 0.8)]):
        write(tmp_path, cycles + beta, method="csgld", params=schedule(cycles=cycles, beta=beta), number=k)
    write_run(tmp_path, method="csgld", chains=1, seed=7, params=schedule(), status="diverged", number=5)
    built = CycleBeta().build(store(tmp_path), Request())
    error, likelihood = built.tables
    assert [row["M"] for row in error.rows] == [2, 4]
    assert error.rows[0]["0.5"].startswith("2.5")
    assert error.rows[1]["0.5"] == ""
    assert error.rows[1]["0.8"].endswith("(1 of 4 seeds lost)")
    assert likelihood.rows[0]["0.8"].startswith("0.28")
    rows = [(r["cycles"], r["beta"], r["metric"]) for r in built.records]
    places = [(2, 0.5), (2, 0.8), (4, 0.8)]
    assert rows == [(*pair, metric) for metric in ("test_error", "nll") for pair in places]
    assert {r["metric"] for r in CycleBeta().build(store(tmp_path), Request(metric="nll")).records} == {"nll"}


def test_rows_of_one_total_are_compared_with_the_one_of_fewest_chains(tmp_path):
    write(tmp_path, 4.0, seeds=6, method="csgld", passes=200.0, budget="gradients=200", steps=200)
    write(tmp_path, 5.0, seeds=6, method="sgld", chains=4, passes=50.5, budget="gradients=50", steps=50, number=1)
    write(tmp_path, 3.0, seeds=6, method="csgld", chains=4, passes=200.0, number=2)
    write_run(tmp_path, method="sghmc", chains=4, status="diverged", number=3)
    built = EqualCost().build(store(tmp_path), Request())
    assert [note.rpartition(": ")[2] for note in built.notes] == ["sghmc has no cost, no run of it came to its end"]
    (table,) = built.tables
    assert [(row["total"], row["method"], row["chains"]) for row in table.rows] == [
        ("200", "csgld", 1), ("202", "sgld", 4), ("800", "csgld", 4),
    ]  # fmt: skip
    assert [row["against"] for row in table.rows] == [
        "", "not compared: they differ in schedule: constant and cyclical", "",
    ]  # fmt: skip


def test_rows_of_one_total_and_equal_terms_are_compared(tmp_path):
    write(tmp_path, 4.0, seeds=6, method="sghmc", passes=200.0, budget="gradients=200", steps=200)
    write(tmp_path, 5.0, seeds=6, method="sgld", chains=4, passes=50.5, budget="gradients=50", steps=50, number=1)
    built = EqualCost().build(store(tmp_path), Request())
    (table,) = built.tables
    assert "worse" in table.rows[1]["against"]
    record = next(r for r in built.records if r["method"] == "sgld" and r["metric"] == "test_error")
    assert record["difference"] == pytest.approx(1.0)
    assert (record["cost_class"], record["total_passes"], record["against"]) == (200, 202, "sghmc, 1 x")


def test_without_several_numbers_of_chains_there_is_nothing_of_equal_cost(tmp_path):
    assert not EqualCost().build(store(tmp_path), Request()).records
    write(tmp_path, 4.0, seeds=1)
    write(tmp_path, 4.0, seeds=1, passes=50.0, budget="gradients=50", steps=50, number=1)
    assert not EqualCost().build(store(tmp_path), Request()).notes
    (note,) = EqualCost().build(store(tmp_path), Request(tasks=("mixture25",))).notes
    assert note.endswith("all runs have the same number of chains")
    asked = Request(tasks=("mixture25",))
    for report, word in ((Tempering(), "schedule.temperature"), (CycleBeta(), "schedule.cycles")):
        assert all(word in note for note in report.build(store(tmp_path), asked).notes)
