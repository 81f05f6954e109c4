"""The tables, as a reader meets them: censoring, over-wide modes, who leads and why."""

import json
import math

import numpy as np
import pytest
from scored import final_errors, low_error, moments, store, time_rows, write_run

from harness.reporting.rendering import render
from harness.reporting.report import Request
from reports.tables.coverage import Coverage
from reports.tables.ess import EffectiveSize
from reports.tables.leaderboard import Leaderboard

PUBLISHED = {"budget": "paper", "steps": 50_000, "origins": {}}


@pytest.mark.parametrize(
    ("kind", "note", "field"),
    [
        ("untuned", "sgld: untuned default: schedule.step_size=0.02", "untuned"),
        ("user", "sgld: set by the user: schedule.step_size=0.02", "set_by_user"),
        ("paper", "", ""),
    ],
)
def test_where_a_setting_comes_from_is_printed(tmp_path, kind, note, field):
    origins = {"schedule.step_size": {"value": 0.02, "provenance": kind, "source": ""}}
    write_run(tmp_path, chains=1, metrics={"modes_covered": 1.0}, **{**PUBLISHED, "origins": origins})
    result = Coverage().build(store(tmp_path), Request())
    assert [n for n in result.tables[0].notes if "schedule.step_size" in n] == [note] * bool(note)
    known = {name: result.records[0][name] for name in ("untuned", "set_by_user") if result.records[0][name]}
    assert known == ({field: "schedule.step_size=0.02"} if field else {})


def write_blr(results, method, ess, variance=1.0, seeds=5, passes=10_000.0, **changes):
    for seed in range(seeds):
        metrics = {
            "paper_ess_median": ess(seed), "paper_ess_mean": ess(seed), "ess_bulk": 100.0 + seed,
            "mean_error": 0.03, "variance_ratio": variance,
        }  # fmt: skip
        curves = {
            **moments(0.01 * (-1) ** seed, variance + 0.001 * seed, 14),
            "chain_error_z": (np.arange(14), np.full((1, 14), 0.1)),
        }
        write_run(
            results, method=method, task="blr-heart", seed=seed, chains=1, metrics=metrics, curves=curves,
            passes=passes, **{**PUBLISHED, "steps": 10_000, **changes},
        )  # fmt: skip


def test_a_saturated_size_is_censored_and_a_frozen_chain_cannot_rank(tmp_path):
    write_blr(tmp_path, "hmc", lambda seed: 4000.0 + seed)
    write_blr(tmp_path, "sghmc", lambda _: 5000.0, variance=0.0)
    result = EffectiveSize().build(store(tmp_path), Request())
    (table,) = result.tables
    frozen = next(row for row in table.rows if row["method"] == "sghmc")
    assert frozen["paper's ESS, median"] == ">= 5,000"
    assert (frozen["rank"], frozen["status"]) == ("-", "biased")
    assert table.rows[0]["method"] == "hmc"
    assert table.rows[0]["rank"] == "1"


def test_sizes_are_ranked_by_what_they_cost(tmp_path):
    write_blr(tmp_path, "hmc", lambda seed: 4000.0 + seed, passes=100_000.0)
    write_blr(tmp_path, "sgld", lambda seed: 1000.0 + seed)
    time_rows(tmp_path)
    result = EffectiveSize().build(store(tmp_path), Request())
    (record,) = [r for r in result.records if (r["method"], r["metric"]) == ("sgld", "paper_ess_median_per_pass")]
    assert record["mean"] == pytest.approx(0.1002)
    assert (record["rank"], record["unit"], record["ranked_by"]) == (1, "draws/data pass", True)
    per_second = next(r for r in result.records if r["metric"] == "paper_ess_median_per_second")
    assert per_second["unit"] == "draws/s"
    asked = EffectiveSize().build(store(tmp_path), Request(metric="paper_ess_median"))
    assert asked.tables[0].rows[0]["method"] == "hmc"


def write_headline(results, method, cost, seeds=8, error=0.3):
    for seed in range(seeds):
        curves = {**moments(0.01 * (-1) ** seed, 1 + 0.01 * (-1) ** seed), **low_error(cost, 4)}
        curves |= final_errors(np.full((4, 2), error * (1 + 0.01 * seed))) if error else {}
        metrics = {"modes_covered": 20.0 if method == "sgld" else 10.0}
        write_run(results, method=method, seed=seed, metrics=metrics, curves=curves)


def test_a_table_of_failures_says_so(tmp_path):
    write_run(tmp_path, seed=0, status="error", number=1)
    write_run(tmp_path, seed=1, status="error", number=2)
    (table,) = Leaderboard().build(store(tmp_path), Request()).tables
    assert table.title.endswith("no finished run")
    assert table.notes[0] == "nothing to rank by: no run has a result"
    assert table.rows[0]["status"] == "failed 2 of 2"


def test_the_leaderboard_ranks_by_the_joint_error_and_beside_it_by_cost(tmp_path):
    write_headline(tmp_path, "sgld", [400.0] * 4, error=0.3)
    write_headline(tmp_path, "csgld", [200.0] * 4, error=0.5)
    write_headline(tmp_path, "hmc", [math.inf] * 4, error=0.4)
    result = Leaderboard().build(store(tmp_path), Request())
    (table,) = result.tables
    assert [row["method"] for row in table.rows] == ["sgld", "hmc", "csgld"]
    assert [row["rank"] for row in table.rows] == ["1 (1 to 3)", "2 (1 to 3)", "3 (1 to 3)"]
    too_few = "too few seeds for a verdict"  # on a task with several modes
    assert [row["verdict"] for row in table.rows] == [too_few, *[f"{too_few} (30 seeds)"] * 2]
    assert [row["data passes to low error"] for row in table.rows] == ["400", ">1,000", "200"]
    assert [row["rank by data passes"] for row in table.rows] == ["2", "3", "1"]
    assert table.notes[0].startswith("ranked by joint error; every finished row")
    asked = Leaderboard().build(store(tmp_path), Request(metric="modes_covered"))
    assert asked.tables[0].rows[0]["method"] == "sgld"
    assert "ranked only behind the joint gate" in asked.tables[0].notes[0]


def test_a_row_from_before_the_joint_record_says_so_and_is_not_ranked(tmp_path):
    write_headline(tmp_path, "sgld", [400.0] * 4)
    for seed in range(5):
        write_run(tmp_path, method="csgld", seed=seed, metrics={"modes_covered": 25.0, "mean_error": 0.01})
    for metric in (None, "modes_covered"):
        (table,) = Leaderboard().build(store(tmp_path), Request(metric=metric)).tables
        new, old = table.rows
        assert (new["method"], new["rank"]) == ("sgld", "1")
        assert (old["rank"], old["joint error"], old["rank by data passes"]) == ("-", "no joint record", "-")
        assert any(
            "csgld is not ranked: " in note and "no joint record: `bench rescore`" in note for note in table.notes
        )


def test_what_a_task_hands_out_at_no_cost_stands_on_the_row(tmp_path):
    origins = {"needs.metric": {"value": "the inverse Hessian", "provenance": "given", "source": "the task"}}
    for seed in range(5):
        write_run(tmp_path, method="sgld", seed=seed, metrics={"modes_covered": 1.0 + seed})
        write_run(tmp_path, method="hmc", seed=seed, metrics={"modes_covered": 9.0 + seed}, origins=origins)
    result = Leaderboard().build(store(tmp_path), Request())
    (table,) = result.tables
    assert [row["method"] for row in table.rows] == ["hmc, given metric", "sgld"]
    assert "given at no cost to hmc: metric: the inverse Hessian" in table.notes
    assert [record["given"] for record in result.records if record["metric"] == "modes_covered"] == ["metric", None]


def test_records_are_flat_and_have_what_programs_need(tmp_path):
    write_headline(tmp_path, "sgld", [math.inf] * 4)
    records = json.loads(render(Leaderboard().build(store(tmp_path), Request()), "json"), parse_constant=pytest.fail)
    needed = {
        "task", "task_version", "protocol", "method", "chains", "budget", "metric", "metric_version", "unit",
        "direction", "seeds", "mean", "low", "high", "interval", "run_keys", "rank", "rank_low",
        "rank_high", "verdict", "seeds_to_decide", "failures_high", "status", "steps", "group",
    }  # fmt: skip
    assert all(needed <= set(record) for record in records)
    assert all(not isinstance(value, dict) for record in records for value in record.values())
    (never,) = [record for record in records if record["metric"] == "passes_to_low_error"]
    assert (never["mean"], never["mean_text"]) == (None, "inf")
    keys = [(record["group"], record["metric"]) for record in records]
    assert len(keys) == len(set(keys))


def test_an_empty_store_gives_empty_reports(tmp_path):
    tmp_path.joinpath("runs").mkdir()
    for report in (Leaderboard, Coverage, EffectiveSize):
        result = report().build(store(tmp_path), Request())
        assert not result.tables
        assert not result.records
