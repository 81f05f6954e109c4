"""The report on fixed targets: shares of a constructed store, whose errors fall as 1 / cost."""

from __future__ import annotations

import numpy as np
import pytest
from scored import final_errors, request, store, write_run

from reports.figures.targets import GRID, TargetsReached, reached
from reports.targets import load_targets

ERRORS = load_targets().errors


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    results = tmp_path_factory.mktemp("r")
    x = np.geomspace(1, 1000, 121)
    for method, scale in (("sgld", 1.0), ("csgld", 4.0)):
        for seed in range(5):
            b2 = scale * np.array([[0.5], [1.5]]) / x
            curves = {"joint_b2_z_max": (x, b2), "joint_b2_z2_max": (x, b2 / 2), **final_errors(np.full((2, 2), 0.1))}
            write_run(results, method=method, seed=seed, chains=2, curves=curves, metrics={"mean_error": 0.1})
    for seed in range(5):
        write_run(results, method="sgnht", seed=seed, chains=2, status="diverged")
    return TargetsReached().build(store(results), request())


def test_the_share_in_the_budget_is_that_of_the_errors_at_its_end(report):
    shares = {record["method"]: record["reached"] for record in report.records}
    expected = {"sgld": (ERRORS >= 0.00101).mean(), "csgld": (ERRORS >= 0.00401).mean(), "sgnht": 0.0}
    assert shares == pytest.approx(expected, abs=1.01 / len(ERRORS))
    assert [record["method"] for record in report.records] == ["sgld", "csgld", "sgnht"]
    assert {record["kind"] for record in report.records} == {"synthetic"}


def test_one_kind_has_one_figure_with_its_lines_as_numbers(report):
    (figure,) = report.figures
    assert figure.name == "targets-synthetic"
    assert "version 1" in figure.caption
    assert figure.chart["caption"] == figure.caption.replace("a cross", "a point")
    lines = {line["label"]: line for line in figure.chart["lines"]}
    assert {"sgld", "csgld", "sgnht"} <= lines.keys()
    y = np.array(lines["sgld"]["y"])
    assert (np.diff(y) >= 0).all()
    for line in figure.chart["lines"][:3]:
        assert (np.array(line["low"]) <= np.array(line["y"]) + 1e-9).all()
        assert (np.array(line["high"]) >= np.array(line["y"]) - 1e-9).all()


def test_a_band_is_wide_where_seeds_differ_and_empty_where_they_are_alike():
    alike = reached("a", [np.full((5, 3), 0.1)])
    np.testing.assert_array_equal(alike.low, alike.high)
    some = np.where(np.arange(10)[:, None] < 5, 0.1, np.inf) * np.ones(3)
    mixed = reached("b", [some])
    at = int(np.searchsorted(GRID, 0.5))
    assert mixed.shares[at] == 0.5
    assert mixed.low[at] < 0.3
    assert mixed.high[at] > 0.7


def test_nothing_without_runs(tmp_path):
    result = TargetsReached().build(store(tmp_path), request())
    assert not result.records
    assert not result.figures
    assert result.notes
