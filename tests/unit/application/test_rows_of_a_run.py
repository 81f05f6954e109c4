"""`Bench.run` returns the rows that it was asked for, whatever else the folder has, and refuses wrong arguments."""

import functools

import pytest

from harness import Bench, UsageError
from harness.runs import RunRequest, expand

ASKED = {"chains": 2, "budget": "steps=20", "workers": 1}


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path / "r", say=lambda _: None)


def seeds_of(results):
    return results.runs.select("method", "seed").sort("method", "seed").rows()


def test_rows_that_another_name_ran_are_returned_without_others_of_the_method(bench):
    bench.run("csgld", "gaussian2d", seeds=range(3), **ASKED)
    spec = expand(bench.registry, RunRequest(["csgld"], ["gaussian2d"], [0], 2, "steps=20"))[0][1][0]
    same = {f"schedule.{name}": value for name, value in spec.schedule.params.items() if value is not None}
    same |= {f"sampler.{name}": value for name, value in spec.sampler.params.items() if value is not None}
    bench.run("sgld", "gaussian2d", seeds=[0], **ASKED)
    results = bench.run("sgld", "gaussian2d", seeds=range(3), schedule="cyclical", settings=same, **ASKED)
    assert seeds_of(results) == [("csgld", seed) for seed in range(3)]


@pytest.mark.parametrize("budget", ["passes=1.0", "passes=1", "passes=1e0"])
def test_rows_are_found_however_their_budget_was_spelled(bench, budget):
    asked = {"chains": 1, "workers": 1}
    bench.run("sgld", "mixture5", seeds=range(2), budget="passes=1", **asked)
    results = bench.run("sgld", "mixture5", seeds=range(3), budget=budget, **asked)
    assert seeds_of(results) == [("sgld", seed) for seed in range(3)]


def test_rows_at_other_settings_are_left_out_of_frames_reports_and_comparisons(bench):
    for step in (0.01, 0.02):
        bench.run("sgld,psgld", "gaussian2d", seeds=range(5), settings={"schedule.step_size": step}, **ASKED)
    bench.run("sgld,psgld", "gaussian2d", seeds=range(5), **ASKED | {"budget": "steps=40"})
    results = bench.run("sgld,psgld", "gaussian2d", seeds=range(5), settings={"schedule.step_size": 0.01}, **ASKED)
    assert len(results.runs) == results.metrics["run_key"].n_unique() == 10
    assert results.runs["group_key"].n_unique() == 2
    groups = {one["group"] for one in results.report("leaderboard").records if "group" in one}
    assert not groups or groups == {*results.runs["group_key"]}
    records = results.compare("sgld", "psgld", metric="joint_error").records
    assert {(one["a_group"], one["b_group"]) for one in records} <= {
        (a, b) for a in results.runs["group_key"] for b in results.runs["group_key"] if a != b
    }
    assert len(records) == 1


@pytest.mark.parametrize("narrowed", [{"budget": "steps=20"}, {"budget": "passes=0.2"}, {"chains": 2}])
def test_a_comparison_is_of_the_runs_that_the_filters_select(bench, narrowed):
    bench.run("sgld,psgld", "gaussian2d", seeds=range(5), **ASKED)
    bench.run("sgld,psgld", "gaussian2d", seeds=range(5), chains=3, budget="steps=40", workers=1)
    narrowed = {**narrowed, "budget": bench.load(chains=2).runs["budget"][0]} if "budget" in narrowed else narrowed
    for compare in (bench.load(**narrowed).compare, functools.partial(bench.load().compare, **narrowed)):
        assert [one["chains"] for one in compare("sgld", "psgld", metric="joint_error").records] == [2]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"chains": 0}, "chains = 0 is not a whole number from 1"),
        ({"chains": 2.5}, "chains = 2.5 is not"),
        ({"chains": "4"}, "chains = '4' is not"),
        ({"seeds": 5}, "seeds = 5 is neither numbers"),
        ({"budget": 100}, "budget = 100 is not a text"),
        ({"settings": ["task.noise=2"]}, "settings = .* is not a dict"),
        ({"sweep": {"schedule.step_size": 0.1}}, "sweep of schedule.step_size = 0.1 is not a list"),
        ({"sweep": {"schedule.step_size": "0.1"}}, "sweep of schedule.step_size = '0.1' is not a list"),
        ({"sweep": {"schedule.step_size": []}}, r"sweep of schedule.step_size = \[\] is not a list"),
        ({"settings": {3: 1}}, "settings = .* is not a dict by names"),
        ({"study": 3}, "study = 3 is not the name"),
        ({"workers": "2"}, "workers = '2' is not a whole number"),
        ({"workers": 0}, "workers = 0 is not a whole number"),
        ({"max_runs": 1.5}, "max_runs = 1.5 is not a whole number"),
        ({"devices": 0}, "devices = 0 is not a text"),
        ({"settings": {"schedule.a": 1}, "sweep": {"schedule.a": [2]}}, "schedule.a is in both settings and sweep"),
    ],
)
def test_an_argument_of_another_type_is_refused(bench, asked, message):
    for call in (bench.plan, bench.run):
        with pytest.raises(UsageError, match=message):
            call("sgld", "gaussian2d", **asked)
    assert not (bench.results / "runs").exists()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"timeout": "60s"}, "timeout = '60s' is not"),
        ({"timeout": -1}, "timeout = -1"),
        ({"retry": "no"}, "retry = 'no'"),
    ],
)
def test_an_argument_about_execution_of_another_type_is_refused(bench, asked, message):
    with pytest.raises(UsageError, match=message):
        bench.run("sgld", "gaussian2d", **asked)
    assert not (bench.results / "runs").exists()


def test_a_plan_of_many_finished_runs_is_a_frame(bench):
    bench.run("sgld", "gaussian2d", seeds=range(101), **ASKED)
    frame = bench.plan("sgld", "gaussian2d", seeds=range(103), chains=2, budget="steps=20", workers=1)
    assert (len(frame), frame["job"].null_count()) == (103, 101)
