"""One table over all tasks: what ranks, what does not, and which pool the numbers are of."""

import numpy as np
import pytest
from scored import final_errors, store, time_rows, write_run

from harness.reporting.rendering import render
from harness.reporting.report import Request
from reports.figures.profile import Profile
from reports.figures.ranks import Ranks
from reports.tables.overall import BASELINE, MOST, Overall

TASKS = ("mixture25", "mixture5", "gaussian2d")
SEEDS = 5


def write(results, method, tasks, scale, status="done"):
    """Runs whose error falls as scale / cost, from one pass to a thousand, with noise of the seed."""
    x = np.geomspace(1, 1000, 61)
    for task in tasks:
        for seed in range(SEEDS):
            b2 = scale * np.exp(0.1 * np.random.default_rng(seed).normal()) / np.stack([x, x])
            curves = {"joint_b2_z_max": (x, b2), "joint_b2_z2_max": (x, b2), **final_errors(np.full((2, 2), 0.1))}
            write_run(
                results, method=method, task=task, seed=seed, chains=2, curves=curves, metrics={"mean_error": 0.1},
                status=status, passes=1050.0 if method == "hmc" else 1000.0,
            )  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """sgld, a method four times as fast, one four times as slow, one that misses a task, one that diverged on it."""
    folder = tmp_path_factory.mktemp("overall")
    for method, tasks, scale in (
        ("sgld", TASKS, 2.0), ("baoab", TASKS, 0.5), ("psgld", TASKS, 8.0), ("hmc", TASKS[:2], 0.25),
        ("sgnht", TASKS[:2], 1.0),
    ):  # fmt: skip
        write(folder, method, tasks, scale)
    write(folder, "sgnht", TASKS[2:], 1.0, "diverged")
    return folder


def built(results, **asked):
    return Overall().build(store(results), Request(**asked))


def test_methods_rank_by_their_area_and_one_that_misses_a_task_has_no_rank(results):
    result = built(results)
    rows = {record["method"]: record for record in result.records}
    assert {name: row["rank"] for name, row in rows.items()} == {
        "baoab": 1, "sgld": 2, "sgnht": 3, "psgld": 4, "hmc": None,
    }  # fmt: skip
    assert rows["baoab"]["verdict"] == "best"
    assert rows["psgld"]["verdict"] == "worse"
    (table,) = result.tables
    shown = {row["method"]: row for row in table.rows}
    assert table.columns[0].text(shown["hmc"]) == "2 of 3 tasks"
    assert shown["sgnht"]["warning"] == "diverged on 1"
    assert table.title == "All tasks: 5 methods, 3 tasks, at least 5 seeds"
    assert (rows["hmc"]["passes"], rows["sgld"]["passes"]) == (2100, 3000), "each row's own cost"
    assert rows["hmc"]["missing"] == "gaussian2d (no runs)"
    assert all(0 <= row["low"] <= row["area"] <= row["high"] <= 1 for row in rows.values())


def test_the_speed_up_is_over_the_baseline_on_the_tasks_that_both_have(results):
    rows = {record["method"]: record for record in built(results).records}
    assert rows[BASELINE]["speed_up"] is None
    assert rows["baoab"]["speed_up"] == pytest.approx(2.65, abs=0.1)  # less than four: some targets both do not reach
    assert rows["psgld"]["speed_up"] == pytest.approx(0.44, abs=0.05)
    assert rows["baoab"]["speed_up_low"] > 1 > rows["psgld"]["speed_up_high"]
    assert rows["hmc"]["speed_up"] > rows["baoab"]["speed_up"]


def test_a_filter_chooses_the_pool_and_ranks_are_of_it(results):
    one = built(results, methods=("psgld",))
    assert {r["method"]: r["rank"] for r in one.records} == {"sgld": 1, "psgld": 2}
    assert one.tables[0].title == "All tasks: 2 methods, 3 tasks, at least 5 seeds"
    two = built(results, tasks=("mixture25", "mixture5"))
    assert {r["method"]: r["rank"] for r in two.records}["hmc"] == 1
    assert two.tables[0].title.startswith("All tasks: 5 methods, 2 tasks")


def test_every_aggregate_states_its_pool(results):
    for report in (Overall, Ranks, Profile):
        (table,) = report().build(store(results), Request()).tables
        assert "3 tasks, at least 5 seeds" in table.title, report


def test_the_table_has_twelve_rows_at_most_and_the_baseline_is_one_of_them(tmp_path):
    for k in range(MOST + 3):
        write(tmp_path, f"method-{k:02}", TASKS[:1], 0.1 * (k + 1))
    write(tmp_path, BASELINE, TASKS[:1], 50.0)
    result = built(tmp_path)
    (table,) = result.tables
    assert len(table.rows) == MOST
    assert [row["method"] for row in table.rows] == [*(f"method-{k:02}" for k in range(MOST - 1)), BASELINE]
    assert len(result.records) == MOST + 4
    assert table.title.endswith("; 4 more methods in --json")


def test_the_table_fits_and_its_curves_are_in_the_records(results):
    result = built(results)
    assert max(map(len, render(result, "table", 100).splitlines())) <= 100
    for record in result.records:
        assert len(record["cost"]) == len(record["share"])
        assert record["share"] == sorted(record["share"])
    area = np.trapezoid(result.records[0]["share"], np.linspace(0, 1, len(result.records[0]["share"])))
    assert area == pytest.approx(result.records[0]["area"], abs=0.01)


def test_seconds_are_those_of_the_baseline(tmp_path):
    for method in ("sgld", "hmc"):
        write(tmp_path, method, TASKS[:2], 1.0)
    assert {record["seconds"] for record in built(tmp_path).records} == {None}
    time_rows(tmp_path)
    result = built(tmp_path)
    assert {record["seconds"] for record in result.records} == {1.0}
    assert "seconds" in [column.key for column in result.tables[0].columns]


def test_without_rows_that_count_it_says_what_they_need(tmp_path):
    write_run(tmp_path)
    result = built(tmp_path)
    assert not result.tables
    assert "five finished seeds" in result.notes[0]
