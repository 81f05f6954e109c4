"""The report on bias: exact laws against their formulas, and rows beside HMC at the same budget of the same task."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scored import moments, request, store, write_run

from harness import linear
from harness.reports import Request
from plugins.samplers.msgld import MSGLD
from plugins.samplers.sgld import SGLD
from reports.figures.bias import SHARES, Bias, _at, of_sampler

XS = (0.01, 0.3, 1.0)


def test_the_exact_bias_of_sgld_is_its_formula_at_every_step_and_batch():
    for name, (x, bias) in of_sampler(SGLD(), XS).items():
        expected = np.sqrt((1 + x * SHARES[name] / 2) / (1 - x / 2)) - 1
        np.testing.assert_allclose(bias, expected, rtol=1e-9)


def test_the_exact_bias_of_msgld_is_that_of_its_stationary_variance():
    x, bias = of_sampler(MSGLD(), XS)["all terms"]
    expected = [np.sqrt(linear.stationary_variance(MSGLD(), h, 1.0)) - 1 for h in x]
    np.testing.assert_allclose(bias, expected, rtol=1e-9)


def test_no_cell_is_made_up_where_there_is_no_law():
    assert _at(0.3, np.array([0.1, 0.3, 0.5]), np.array([1.0, 2.0, 3.0])) == "+200 %"
    assert _at(0.4, np.array([0.1, 0.3, 0.5]), np.array([1.0, 2.0, 3.0])) == "-"


def test_beyond_the_stability_limit_there_is_no_law():
    x, _ = of_sampler(SGLD(), (1.9, 2.1))["all terms"]
    assert x.tolist() == [1.9]


def write(results, method, step_size, error, ratio, batch=None, task="mixture25", **more):
    part = {"task_part": {"params": {"batch": batch}}} if batch else {}
    for seed in range(5):
        write_run(
            results, method=method, task=task, seed=seed, params={"step_size": step_size},
            metrics={"mean_error": error}, curves=moments(error, ratio), **part, **more,
        )  # fmt: skip


@pytest.fixture
def report(tmp_path):
    write(tmp_path, "sgld", 0.02, 0.3, 4.0)
    write(tmp_path, "sgld", 0.01, 0.1, 1.21)
    write(tmp_path, "hmc", 0.1, 0.0, 1.0)
    write(tmp_path, "msgld", 0.01, 0.1, 0.25, budget="paper")
    return Bias().build(store(tmp_path), request())


def rows(report, method):
    return [record for record in report.records if record["method"] == method]


def test_rows_have_their_step_size_and_the_bias_of_mean_and_sd(report):
    small, large = sorted(rows(report, "sgld"), key=lambda record: record["step_size"])
    assert (small["step_size"], large["step_size"]) == (0.01, 0.02)
    assert [small["sd_widest"], small["sd_narrowest"]] == pytest.approx([0.1, 0.1])
    assert [large["sd_widest"], large["sd_narrowest"]] == pytest.approx([1.0, 1.0])
    assert small["mean_bias"] == pytest.approx(np.sqrt(2) * 0.1)
    assert large["mean_bias"] == pytest.approx(np.sqrt(2) * 0.3)


def test_hmc_stands_beside_rows_of_its_budget_only(report):
    assert {record["hmc_mean_bias"] for record in rows(report, "sgld")} == {0.0}
    assert "hmc_mean_bias" not in rows(report, "msgld")[0]


def test_each_method_has_a_table_and_a_linear_one_its_exact_law_and_a_chart(report):
    """The settings that are recorded of msgld are not those of its class, so it has runs and no law."""
    titles = [table.title for table in report.tables]
    assert titles.count("Bias of sgld, by step size and batch size") == 1
    assert [t.startswith("Exact") for t in titles if " hmc" in t] == [False]
    assert {figure.method for figure in report.figures} == {"sgld"}
    for figure in report.figures:
        assert [line["label"] for line in figure.chart["lines"]] == [*SHARES, "hmc"]
        assert all(len(line["x"]) == len(line["y"]) for line in figure.chart["lines"])
    for table in report.tables:
        assert {row["method"] for row in table.rows} <= {"sgld", "msgld", "hmc"}
        assert len({row["method"] for row in table.rows}) == 1


def test_another_batch_has_the_same_hmc(tmp_path):
    write(tmp_path, "sgld", 0.01, 0.1, 1.0, batch=10)
    write(tmp_path, "hmc", 0.1, 0.0, 1.0, batch=100)
    (record,) = rows(Bias().build(store(tmp_path), request()), "sgld")
    assert (record["batch"], record["hmc_mean_bias"]) == (10, 0.0)


def test_nothing_without_runs(tmp_path):
    result = Bias().build(store(tmp_path), Request())
    assert (result.tables, result.records, result.figures) == ([], [], [])


def test_a_site_leaves_torch_which_the_exact_laws_need_to_a_process_that_it_forks(tmp_path):
    write(tmp_path / "results", "sgld", 0.02, 0.3, 4.0)
    program = """
import sys
from harness.cli.app import run
assert run(["--results", "results", "site", "--out", "pages", "--report", "bias"]) == 0
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "pages").glob("figures/bias/*.svg"))
