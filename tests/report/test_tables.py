"""The tables, as a reader meets them: censoring, over-wide modes, who leads and why."""

import json
import math
import re

import numpy as np
import pytest
import scored
from scored import final_errors, low_error, moments, store, time_rows, write_run

from harness.reporting import scores
from harness.reporting.rendering import render
from harness.reporting.report import Request
from harness.reporting.scoring import grouping
from harness.system.errors import UsageError
from reports.tables.coverage import Coverage
from reports.tables.ess import EffectiveSize
from reports.tables.leaderboard import Leaderboard

PUBLISHED = {"budget": "paper", "steps": 50_000, "origins": {}}


@pytest.mark.parametrize(
    ("kind", "column", "field"),
    [("untuned", "untuned", "untuned"), ("user", "changed", "set_by_user"), ("paper", "", "")],
)
def test_where_a_setting_comes_from_is_printed(tmp_path, kind, column, field):
    origins = {"schedule.step_size": {"value": 0.02, "provenance": kind, "source": ""}}
    write_run(tmp_path, chains=1, metrics={"modes_covered": 1.0}, **{**PUBLISHED, "origins": origins})
    result = Coverage().build(store(tmp_path), Request())
    (row,) = result.tables[0].rows
    named = {name for name in ("untuned", "changed") if row[name] == "schedule.step_size=0.02"}
    assert named == ({column} if column else set())
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
    assert frozen["paper_ess_median"] == ">= 5,000"
    assert (frozen["rank"], frozen["verdict"], frozen["warning"]) == (None, "not ranked", "biased")
    assert table.rows[0]["method"] == "hmc"
    assert table.rows[0]["rank"] == 1


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
    assert table.notes == ["Nothing to rank by: no run has a result"]
    assert table.rows[0]["warning"] == "failed 2 of 2"


def test_the_leaderboard_ranks_by_the_joint_error_and_beside_it_by_cost(tmp_path):
    write_headline(tmp_path, "sgld", [400.0] * 4, error=0.3)
    write_headline(tmp_path, "csgld", [200.0] * 4, error=0.5)
    write_headline(tmp_path, "hmc", [math.inf] * 4, error=0.4)
    result = Leaderboard().build(store(tmp_path), Request())
    (table,) = result.tables
    assert [row["method"] for row in table.rows] == ["sgld", "hmc", "csgld"]
    assert [row["rank"] for row in table.rows] == [1, 2, 3]
    assert [row["ranks"] for row in table.rows] == ["1 (1 to 3)", "2 (1 to 3)", "3 (1 to 3)"]
    assert [row["verdict"] for row in table.rows] == ["not known"] * 3  # on a task with several modes
    assert [row["warning"] for row in table.rows] == [None, *["30 seeds would decide"] * 2]
    assert [row["times_best"] for row in table.rows] == pytest.approx([1, (4 / 3) ** 2, (5 / 3) ** 2])
    assert [row["passes_to_low_error"] for row in table.rows] == ["400", ">1,000", "200"]
    assert [row["rank_by_passes"] for row in table.rows] == ["2", "3", "1"]
    assert table.notes[0].startswith("Joint error: ")
    asked = Leaderboard().build(store(tmp_path), Request(metric="modes_covered"))
    assert asked.tables[0].rows[0]["method"] == "sgld"
    assert asked.tables[0].notes[0].startswith("Ranked by modes covered. ")


def test_a_row_from_before_the_joint_record_says_so_and_is_not_ranked(tmp_path):
    write_headline(tmp_path, "sgld", [400.0] * 4)
    for seed in range(5):
        write_run(tmp_path, method="csgld", seed=seed, metrics={"modes_covered": 25.0, "mean_error": 0.01})
    for metric, warning in ((None, "no joint record"), ("modes_covered", "undetermined")):
        (table,) = Leaderboard().build(store(tmp_path), Request(metric=metric)).tables
        new, old = table.rows
        assert (new["method"], new["rank"]) == ("sgld", 1)
        assert (old["rank"], old["warning"], old["rank_by_passes"]) == (None, warning, "-")
        assert "no joint record: `bench rescore`" in old["status"]


def test_what_a_task_hands_out_at_no_cost_stands_on_the_row(tmp_path):
    origins = {"needs.metric": {"value": "the inverse Hessian", "provenance": "given", "source": "the task"}}
    for seed in range(5):
        write_run(tmp_path, method="sgld", seed=seed, metrics={"modes_covered": 1.0 + seed})
        write_run(tmp_path, method="hmc", seed=seed, metrics={"modes_covered": 9.0 + seed}, origins=origins)
    result = Leaderboard().build(store(tmp_path), Request())
    (table,) = result.tables
    assert [row["method"] for row in table.rows] == ["hmc, given metric", "sgld"]
    assert [row["given"] for row in table.rows] == ["metric: the inverse Hessian", ""]
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


def write_five(results):
    """Five rows of 30 seeds on a mixture: one too wide, one with failed chains, one that diverged, one far off."""
    for k, method in enumerate(("sgld", "csgld", "sghmc", "relativistic-sghmc", "sgnht")):
        for seed in range(30):
            errors = np.full((4, 2), 0.1 * (k + 1) * (1 + 0.01 * seed))
            errors[0] *= 30 if method == "sghmc" and seed % 15 == 0 else 1
            errors *= 10 if method == "relativistic-sghmc" else 1
            metrics = {"modes_covered": 20.0, "within_mode_covariance_ratio": (4.8 if k == 1 else 1.0) + 0.001 * seed}
            curves = {**moments(0.01 * (-1) ** seed), **final_errors(errors), **low_error([400.0] * 4, 4)}
            status = "diverged" if method == "sgnht" and seed == 3 else "done"
            write_run(results, method=method, seed=seed, metrics=metrics, curves=curves, status=status)
    return results


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    return Leaderboard().build(store(write_five(tmp_path_factory.mktemp("five"))), Request())


def test_a_row_has_the_gravest_of_its_warnings(five):
    (table,) = five.tables
    assert {row["method"]: row["warning"] for row in table.rows} == {
        "sgld": None, "csgld": "too wide x4.81", "sghmc": "2 of 120 chains failed", "sgnht": "diverged 1 of 30",
        "relativistic-sghmc": "above one exact draw",
    }  # fmt: skip
    assert [row["verdict"] for row in table.rows] == ["best", "worse", "worse", "worse", "not ranked"]


def test_seven_columns_fit_into_a_hundred_characters_and_the_others_come_on_demand(five):
    (table,) = five.tables
    assert [column.key for column in table.columns] == [
        "rank", "method", "verdict", "joint_error", "times_best", "passes", "warning",
    ]  # fmt: skip
    for width in (70, 100, 160):
        lines = render(five, "table", width).splitlines()
        assert max(map(len, lines)) <= width
        text = " ".join(" ".join(lines).split())
        assert all(column.header.split()[0] in text for column in table.columns)
        assert "\N{HORIZONTAL ELLIPSIS}" not in text or width < 100
        assert f"{len(table.more)} more columns: --columns all" in text
    wide = render(five, "table", 160).splitlines()
    rows = [line for line in wide if line.lstrip()[:1].isdigit()]
    assert "too wide x4.81" in rows[1]
    more = {column.key for column in table.more}
    assert {"seconds", "within_mode_covariance_ratio", "seeds", "settings", "failed_chains"} <= more


def test_a_timed_table_shows_seconds(tmp_path):
    write_headline(tmp_path, "sgld", [400.0] * 4)
    time_rows(tmp_path)
    (table,) = Leaderboard().build(store(tmp_path), Request()).tables
    assert "seconds" in [column.key for column in table.columns]
    assert "passes" in [column.key for column in table.more]
    for form in ("table", "markdown", "latex", "html"):
        assert "seconds" in render(Leaderboard().build(store(tmp_path), Request()), form)


def test_a_table_has_one_footnote_of_one_line_and_its_numbers_have_three_digits(five):
    (table,) = five.tables
    (note,) = table.notes
    assert len(note) <= 100
    assert "docs/glossary.md" in note
    for form in ("table", "markdown", "latex", "html"):
        assert not re.search(r"\de\+0\d", render(five, form)), form


def test_a_frame_is_what_the_table_shows(five):
    frame = five.frame()
    assert frame.shape == (5, 8)
    assert frame.columns == ["task", *(column.key for column in five.tables[0].columns)]
    assert frame["rank"].to_list() == [1, 2, 3, 4, None]
    assert frame["joint_error"].to_list()[0] == pytest.approx(0.0132, rel=0.02)
    assert five.frame("all").height == len(five.records)
    with pytest.raises(UsageError, match="choose 'shown' or 'all'"):
        five.frame("most")


def test_a_difference_stands_for_a_metric_in_nats(tmp_path, monkeypatch):
    monkeypatch.setitem(scored.UNITS, "nll", ("nats", "min", None))
    for method, value in (("sgld", 1.0), ("csgld", 1.5)):
        for seed in range(5):
            write_run(tmp_path, method=method, seed=seed, metrics={"nll": value + 0.001 * seed})
    (table,) = Leaderboard().build(store(tmp_path), Request()).tables
    shown = {column.key: column.header for column in table.columns}
    assert (shown["nll"], shown["times_best"]) == ("NLL", "minus the best")
    assert [row["times_best"] for row in table.rows] == pytest.approx([0, 0.5])


def test_a_leaderboard_of_runs_without_curves_makes_no_object_of_any_and_opens_the_database_as_often(
    tmp_path, monkeypatch
):
    """A hundred thousand runs would be as many objects, and twenty parts of `AT_ONCE` runs."""
    for method in ("sgld", "sghmc", "csgld"):
        for seed in range(6):
            write_run(tmp_path, method=method, task="of-another-package", seed=seed, metrics={"ess_bulk": seed + 1.0})
    runs, opened = store(tmp_path), []
    reading = type(runs).reading
    monkeypatch.setattr(type(runs), "reading", lambda self: opened.append(self) or reading(self))
    monkeypatch.setattr(grouping, "Run", lambda **_: pytest.fail("an object of a run"))
    numbers = []
    for at_once in (100, 2):
        monkeypatch.setattr(scores, "AT_ONCE", at_once)
        opened.clear()
        (table,) = Leaderboard().build(runs, Request()).tables
        assert len(table.rows) == 3
        numbers.append(len(opened))
    assert numbers[0] == numbers[1]
