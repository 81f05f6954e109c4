"""How many seeds decide what: the report `needed-seeds` against the tests that it plans for."""

from __future__ import annotations

import numpy as np
import pytest
from scored import final_errors, moments, store, write_run

from harness.reporting.report import Request
from harness.reports import load_groups, number
from reports.orderings import load_orderings
from reports.tables.needed_seeds import COUNTS, NeededSeeds

SEEDS = 6
DECLARED = next(one for one in load_orderings() if not one.metric)


@pytest.fixture
def built(tmp_path):
    """The samplers of a published ordering, a little and far apart from a third."""
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        for method, error in ((DECLARED.better, 0.2), (DECLARED.worse, 0.24), ("baoab", 20.0)):
            curves = moments() | final_errors(
                np.sqrt(error) * (1 + 0.3 * rng.normal() + 0.05 * rng.normal(size=(4, 2)))
            )
            write_run(
                tmp_path, method=method, task=DECLARED.task, seed=seed, metrics={"mean_error": 0.1}, curves=curves
            )
    return tmp_path, NeededSeeds().build(store(tmp_path), Request())


def test_an_ordering_has_the_seeds_that_decide_it_at_the_level_of_all(built):
    folder, result = built
    orderings = [r for r in result.records if r["finding"] == "ordering"]
    assert {r["task"] for r in orderings} == {DECLARED.task}
    (record,) = [r for r in orderings if (r["a"], r["b"]) == (DECLARED.better, DECLARED.worse)]
    assert (record["decided"], record["seeds"]) == (False, SEEDS)
    assert record["seeds_to_decide"] > SEEDS
    groups = {group.method: group for group in load_groups(store(folder), Request())}
    cost = sum(groups[name].chains * groups[name].runs[0].passes for name in (DECLARED.better, DECLARED.worse))
    assert record["passes_a_seed"] == cost
    (table,) = [table for table in result.tables if table.title == "Declared orderings"]
    (row,) = [row for row in table.rows if (row["a"], row["b"]) == (DECLARED.better, DECLARED.worse)]
    assert row["needed"] == f"{record['seeds_to_decide']:,}"
    present = [r for r in orderings if r["seeds"]]
    for counted in result.tables[0].rows:
        n = counted["seeds"]
        expected = sum(r[f"decided_by_{n}"] for r in present)
        assert counted["orderings decided"] == f"{expected:.1f} of {len(present)}"
        assert counted["data passes"] == number(n * sum(r["passes_a_seed"] for r in present))
    chances = [record[f"decided_by_{n}"] for n in COUNTS]
    assert chances == sorted(chances)
    assert 0 <= chances[0] < 0.5 < chances[-1] < 1


def test_what_is_decided_may_not_be_by_fewer_new_seeds(built, tmp_path):
    folder = tmp_path / "far"
    for seed in range(SEEDS):
        draw = np.random.default_rng(seed)
        for method, error in ((DECLARED.better, 0.01), (DECLARED.worse, 20.0)):
            curves = moments() | final_errors(
                np.sqrt(error) * (1 + 0.3 * draw.normal() + 0.05 * draw.normal(size=(4, 2)))
            )
            write_run(folder, method=method, task=DECLARED.task, seed=seed, metrics={"mean_error": 0.1}, curves=curves)
    built = NeededSeeds().build(store(folder), Request())
    (record,) = [r for r in built.records if r["finding"] == "ordering" and r["a"] == DECLARED.better and r["seeds"]]
    assert record["decided"]
    assert record["decided_by_5"] < 1
    assert record["decided_by_320"] > 0.99


def test_a_row_has_the_seeds_of_its_verdict(built):
    rows = {r["a"]: r for r in built[1].records if r["finding"] == "row"}
    assert len(rows) == 2
    assert (rows["baoab"]["says"], rows["baoab"]["decided"]) == ("worse", True)
    (other,) = (r for name, r in rows.items() if name != "baoab")
    assert (other["says"], other["decided"]) == ("not known", False)
    assert other["seeds_to_decide"] > SEEDS


def test_nothing_is_planned_from_no_results(tmp_path):
    write_run(tmp_path, metrics={"mean_error": 0.1})
    assert not NeededSeeds().build(store(tmp_path), Request()).tables
