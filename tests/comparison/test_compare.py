"""`bench compare`: what its words mean, and what it answers."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scored import final_errors, low_error, moments, write_run

from harness.analysis.statistics import most_failures, paired_test
from harness.reporting.rendering.terminal import render
from harness.reports import number as shown
from plugins.comparison.compare import _table

SEEDS = range(30)


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    for seed in SEEDS:
        for method, cost, value in (("sgld", 600.0, 4.0), ("csgld", 200.0, 15.0)):
            curves = moments() | low_error([cost + 20 * seed] * 4)
            curves |= final_errors(np.full((4, 2), cost / 1000 + 0.001 * seed))
            write_run(folder, method=method, seed=seed, metrics={"modes_covered": value + seed % 3}, curves=curves)
    return folder


@pytest.fixture
def answer(bench):
    def command(*words):
        code, out, err = bench("compare", *words, "--differs", "schedule", "--json")
        assert code == 0, err
        return json.loads(out)

    return command


def test_beside_long_labels_a_terminal_of_100_columns_has_the_verdict_and_the_effect(answer):
    schedule = "(schedule=constant-then-polynomial)"
    rows = [{**row, "a": f"csgld {schedule}", "b": f"sgld {schedule}"} for row in answer("csgld", "sgld")]
    score = SimpleNamespace(title="", groups=[SimpleNamespace(key=rows[0]["a_group"])])
    lines = render([_table(score, rows)], 100).splitlines()
    assert "A is" in lines[0]
    assert "A - B, or A / B" in lines[0]
    assert "better" in lines[2]
    assert max(map(len, lines)) <= 100


def test_the_headline_and_the_primary_metric_are_compared(answer):
    rows = answer("csgld", "sgld")
    assert [(row["metric"], row["scale"], row["pairs"], row["outcome"]) for row in rows] == [
        ("joint_error", "ratio", 30, "better"),
        ("median_error", "ratio", 30, "better"),
        ("failed_chains", "difference", 30, "undecided"),
        ("passes_to_low_error", "ratio", 30, "better"),
        ("modes_covered", "difference", 30, "better"),
    ]
    assert rows[4]["effect"] == 11.0
    assert rows[4]["p"] == 2 / 2**30  # thirty equal differences
    assert {row["level"] for row in rows} == {1 - 0.05 / 5}
    assert [row["adjusted"] for row in rows] == pytest.approx([min(1, 5 * row["p"]) for row in rows])
    assert [row["nearer"] for row in rows] == [
        *(rows[k]["high"] for k in range(2)),
        None,
        rows[3]["high"],
        rows[4]["low"],
    ]
    assert rows[0]["seeds"] == list(SEEDS)


def test_a_key_or_the_beginning_of_one_names_a_row(answer, results):
    specs = [json.loads(path.read_text()) for path in results.glob("runs/*/*/*/spec.json")]
    keys = {spec["method"]: spec for spec in specs}
    by_name = answer("csgld", "sgld")
    assert answer(keys["csgld"]["group"][:12], keys["sgld"]["key"][:16]) == by_name


def test_rows_of_one_method_are_told_apart_by_their_label(answer, bench, results):
    for seed in SEEDS:
        metrics = {"modes_covered": 6.0 + seed % 2}
        write_run(results, seed=seed, metrics=metrics, params={"step_size": 0.1, "temperature": 1.0}, curves=moments())
    names = "sgld (schedule.step_size=0.1)", "sgld (schedule.step_size=0.02)"
    (row,) = answer(*names, "--metric", "modes_covered")
    assert row["level"] == 0.95
    assert (row["a"], row["b"], row["pairs"]) == (*names, len(SEEDS))
    rows = answer("csgld", "sgld", "--metric", "modes_covered")
    assert [row["b"] for row in rows] == sorted(names)
    code, _, err = bench("compare", "sgld", "sgld")
    assert code == 2
    assert "give a label or group key" in err
    code, _, err = bench("compare", "sgld (schedule.step_size=0.3)", "csgld")
    assert code == 2
    assert names[0] in err


def test_of_several_versions_of_the_code_a_method_means_the_newest(bench, results):
    for seed in SEEDS:
        write_run(
            results, seed=seed, metrics={"modes_covered": 9.0 + seed % 2}, curves=moments(), number=9, engine=99
        )  # fmt: skip
    code, out, err = bench("compare", "csgld", "sgld", "--differs", "schedule", "--metric", "modes_covered", "--json")
    assert code == 0
    (row,) = json.loads(out)
    assert row["b_mean"] == 9.5
    assert "was run with older code and is left out" in err


def edited(results, method, number, value=5.0, task="mixture25", **part):
    """The task was edited, without a new version, and the method run again."""
    for seed in SEEDS:
        write_run(
            results, method=method, seed=seed, metrics={"modes_covered": value + seed % 2}, curves=moments(),
            number=number, task=task, task_part={"source": "e" * 64, **part},
        )  # fmt: skip


@pytest.mark.parametrize("part", [{}, {"source": "t" * 8, "data": "d" * 64}], ids=["source", "data"])
def test_results_on_other_code_or_data_of_the_task_are_not_compared(bench, results, part):
    edited(results, "sghmc", 7, **part)
    code, out, err = bench("compare", "csgld", "sghmc")
    assert (code, out) == (2, "")
    assert "mixture25@csgmcmc had other code or data in the runs of csgld than in those of sghmc" in err
    assert "csgld on task source tttttttt" in err


def test_runs_on_older_code_of_the_task_are_left_out_where_there_are_current_ones(bench, results):
    for number, source in enumerate(("old", "new")):
        edited(results, "sgld", number, task="elsewhere", source=source)
        edited(results, "csgld", number, value=3.0 - number, task="elsewhere", source=source)
    words = "--task", "elsewhere", "--metric", "modes_covered", "--json"
    code, out, err = bench("compare", "csgld", "sgld", "--differs", "schedule", *words)
    assert code == 0
    (row,) = json.loads(out)
    assert (row["a_mean"], row["b_mean"]) == (2.5, 5.5)
    assert "note: elsewhere@csgmcmc (task source old, older code), task version 1" in err
    assert "runs on older code of the task are left out" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("csgld", "sgl"), "did you mean"),
        (("csgld", "hmc"), "hmc has no finished run"),
        (("csgld", "sgld", "--metric", "modes_coverd"), "modes_covered"),
        (("csgld", "sgld", "--metric", "low_error_share"), "not compared by seed"),
        (("csgld", "sgld", "--differs", "scedule"), "did you mean schedule"),
        (("csgld", "sgld"), "they differ in schedule: cyclical and constant; what the comparison is about is named by"),
        (("csgld", "sgld", "--task", "mixture5"), "no finished run of task 'mixture5'"),
        (("csgld", "sgld", "--task", "mixture25@other"), "nothing to compare"),
        (("csgld", "abcdef123456"), "there is no run or row abcdef123456"),
    ],
)
def test_what_is_not_there_is_a_usage_error_that_helps(bench, words, said):
    code, out, err = bench("compare", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_rows_of_other_fields_are_not_compared(bench, results):
    write_run(results, method="sghmc", seed=0, metrics={"modes_covered": 5.0}, budget="paper")
    code, _, err = bench("compare", "csgld", "sghmc")
    assert code == 2
    assert "csgld was run on: mixture25@csgmcmc, task version 1: quick budget" in err
    assert "sghmc was run on: mixture25@csgmcmc, task version 1: paper budget" in err


def test_the_table_has_the_outcome_its_end_and_what_more_seeds_would_show(bench, results):
    for seed in SEEDS:
        write_run(
            results, method="sghmc", seed=seed, metrics={"modes_covered": 4.0 + (seed * 7) % 4}, curves=moments(),
        )  # fmt: skip
    code, out, err = bench("compare", "csgld", "sgld", "--metric", "modes_covered", "--differs", "schedule", "--json")
    assert code == 0, err
    assert json.loads(out)[0]["seeds_to_decide"] == 30
    code, out, err = bench("compare", "sghmc", "sgld", "--metric", "modes_covered", "--json")
    (row,) = json.loads(out)
    assert (row["outcome"], row["nearer"]) == ("undecided", None)
    differences = [(s * 7) % 4 - s % 3 for s in SEEDS]
    tested = paired_test(differences)
    assert row["detectable"] == pytest.approx(tested.detectable(0.95))
    assert row["seeds_to_decide"] == tested.seeds_to_decide(0.95) > 30
    code, out, err = bench("compare", "sghmc", "sgld", "--metric", "modes_covered")
    assert "undecided" in out
    assert shown(tested.detectable(0.95)) in out
    assert f"  {tested.seeds_to_decide(0.95)}\n" in out
    code, out, err = bench("compare", "csgld", "sgld", "--differs", "schedule")
    assert "better, x 0." in out
    assert "better, 11.0 or further" in out


def test_median_and_failures_are_compared_separately(bench, tmp_path):
    """Of sghmc a chain of eight is smaller, and every second seed loses a chain with 400 times the error."""
    folder = tmp_path / "results"
    for seed in SEEDS:
        noise = 1 + 0.05 * np.random.default_rng(seed).normal(size=(8, 1))
        for method, error in (("sgld", 0.1 * noise), ("sghmc", 0.05 * noise)):
            error[0] *= 20 if method == "sghmc" and seed % 2 else 1
            curves = moments() | final_errors(np.repeat(error, 2, axis=1))
            write_run(folder, method=method, seed=seed, chains=8, metrics={"modes_covered": 4.0}, curves=curves)
    code, out, err = bench("compare", "sghmc", "sgld", "--metric", "joint_error,median_error,failed_chains", "--json")
    assert code == 0, err
    joint, median, failed = json.loads(out)
    assert (joint["effect"] > 1, median["outcome"], failed["outcome"]) == (True, "better", "worse")
    assert median["effect"] == pytest.approx(0.25, rel=0.05)
    assert (failed["effect"], failed["b_mean"]) == (1 / 16, 0.0)
    code, out, err = bench("report", "leaderboard", "--json")
    shares = {row["method"]: row for row in json.loads(out) if row["metric"] == "failed_chains"}
    assert (shares["sghmc"]["mean"], shares["sgld"]["mean"]) == (1 / 16, 0.0)
    assert shares["sgld"]["high"] == pytest.approx(1 - 0.05 ** (1 / 30))  # about 3 / n
    code, out, err = bench("report", "leaderboard", "--format", "markdown", "--columns", "failed_chains")
    assert f"15 of 240 (up to {most_failures(2, 30):.0%})".replace("%", " %") in out
    assert "0 of 240 (up to 10 %)" in out
