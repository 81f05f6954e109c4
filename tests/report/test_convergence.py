"""The figure of errors: medians with intervals over seeds, the joint error at the end, the floor of exact draws."""

import numpy as np
import pytest
from scored import final_errors, store, write_run

from harness import Result
from harness.analysis.diagnostics import passes_to_low_error
from harness.analysis.diagnostics.crossing import last_crossing
from harness.contracts.registry import registry
from harness.reporting.report import Request
from plugins.inspection.shown.run import run
from plugins.nights.site.gather import fields
from reports.figures.convergence import Convergence, resampled_medians, typical_chain
from reports.tables.leaderboard import Leaderboard

POINTS, CHAINS, SEEDS = 80, 8, 5
X = np.geomspace(10, 1000, POINTS)


def chains(rate, seed):
    """b2 of chains that fall as rate / x."""
    rng = np.random.default_rng([seed, int(rate)])
    return rate / X * rng.chisquare(1, size=(CHAINS, 1)) * np.ones(POINTS)


def write(results, method, rate, status="done", **changes):
    for seed in range(SEEDS):
        y = chains(rate, seed)
        curves = {"joint_b2_z_max": (X, y), "joint_b2_z2_max": (X, y / 2), **final_errors(np.sqrt(y[:, -1:]))}
        done = {"curves": curves, "metrics": {"mean_error": 0.1}} if status == "done" else {}
        write_run(results, method=method, seed=seed, chains=CHAINS, status=status, **done, **changes)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("results")
    write(tmp_path, "sgld", 30.0)
    write(tmp_path, "csgld", 1.0)
    write(tmp_path, "sghmc", 0.0, status="diverged")
    return Convergence().build(store(tmp_path), Request(tasks=("mixture25",)))


def test_a_line_is_the_median_over_chains_and_seeds(built):
    by_label = {record["label"]: record for record in built.records}
    rows = np.concatenate([chains(30.0, seed) for seed in range(SEEDS)])
    assert by_label["sgld"]["typical_b2"] == pytest.approx(np.median(rows[:, -2]))
    assert by_label["sgld"]["typical_low"] < by_label["sgld"]["typical_b2"] < by_label["sgld"]["typical_high"]
    assert by_label["sgld"]["joint_error"] == pytest.approx(rows[:, -1].mean())
    assert [record["label"] for record in built.records] == ["csgld", "sgld"]
    assert any("sghmc" in note for note in built.notes)


def test_the_captions_of_the_figure_and_of_its_chart_describe_what_each_has(built):
    (figure,) = built.figures
    captions = figure.caption, figure.chart["caption"]
    assert [("On the right" in text, "Dotted: b2 = 0.01" in text) for text in captions] == [
        (True, True),
        (False, False),
    ]
    assert {text.partition(". ")[0] for text in captions} == {figure.caption.partition(". ")[0]}


def test_the_line_crosses_the_threshold_at_the_data_passes_to_low_error():
    rows = np.concatenate([chains(1.0, seed) for seed in range(SEEDS)])
    seeds = np.repeat(np.arange(SEEDS), CHAINS)
    values, low, high = typical_chain([rows, rows / 2], seeds)
    assert last_crossing(values, X, 0.01) == passes_to_low_error(rows, X, seeds).value
    assert (low < values).all()
    assert (values < high).all()
    assert np.isnan(typical_chain([rows], np.zeros(len(rows), dtype=int))[1]).all()


def test_resampled_medians_are_those_of_the_repeated_rows():
    rng = np.random.default_rng(0)
    rows, seeds = rng.normal(size=(7, 3)), np.array([0, 0, 1, 2, 3, 3, 1])
    times = rng.integers(0, 3, size=(20, 4)).astype(float)
    medians = resampled_medians(rows, seeds, times)
    again = [np.median(np.repeat(rows, counts.astype(int)[seeds], axis=0), axis=0) for counts in times]
    np.testing.assert_allclose(medians, again)


def test_the_interval_of_a_median_holds_the_true_one():
    """At 5 and 10 seeds of 8 chains that share a seed's luck: 95 %, as near as a bootstrap of few seeds comes."""
    truth = 1.0  # the median of exp(normal)
    for count in (5, 10):
        rng, held = np.random.default_rng(count), []
        for _ in range(400):
            luck = np.repeat(rng.normal(size=count), CHAINS) + rng.normal(size=count * CHAINS)
            _, low, high = typical_chain([np.exp(luck)[:, None]], np.repeat(np.arange(count), CHAINS))
            held.append(low[0] <= truth <= high[0])
        assert 0.92 <= np.mean(held) <= 0.995, (count, np.mean(held))


def test_show_and_the_page_of_a_task_have_the_distance_of_a_row_from_exact_draws(tmp_path):
    for seed in range(SEEDS):
        y = chains(1.0, seed)
        curves = {"joint_b2_z_max": (X, y), "joint_b2_z2_max": (X, y / 2), **final_errors(np.sqrt(y[:, -1:]))}
        write_run(tmp_path, seed=seed, chains=CHAINS, curves=curves, metrics={"joint_error": float(y[:, -1].mean())})
    held, request = store(tmp_path), Request(registry=registry())
    result = Convergence().build(held, request)
    (record,) = result.records
    away = record["sd_from_exact"]
    assert away is not None
    assert run(held, record["run_keys"][0], registry())["sd_from_exact"] == away
    (field,) = fields(held, request, Leaderboard().build(held, request), result)
    assert field.table.columns[-1].header == "sd from exact"
    assert [row["sd_from_exact"] for row in field.table.rows] == [away]
    (field,) = fields(held, request, Leaderboard().build(held, request), Result())
    assert "sd from exact" not in [column.header for column in field.table.columns]


def test_a_task_without_truth_has_no_such_figure(tmp_path):
    write_run(tmp_path, metrics={"test_error": 3.0})
    built = Convergence().build(store(tmp_path), Request())
    assert not built.tables
    assert not built.figures
