"""`bench tune`: its trials are no results, the same command asks for the same trials, and its settings are used."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support import make_loop, run_loop

from harness import Registry, param, registry
from harness.contracts.parameters import schema
from harness.contracts.registry import load
from harness.reports import load_plugin
from harness.runs import local
from harness.runs.settings import find_pair, resolve, with_study
from harness.tasks import ALL_ROWS_SEED, TUNING_SEED, DataTask, Protocol, Streams
from plugins.running import groups
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from plugins.tuning import studies

pytest.importorskip("optuna", reason="bench tune needs optuna, an optional extra")

from plugins.tuning.search import AGAINST_TRUTH, Search, objective
from plugins.tuning.seeds import SearchSeeds
from plugins.tuning.space import Range, Space, find_spaces

TUNE = ("tune", "--sampler", "sgld,sghmc", "--task", "gaussian2d", "--budget", "steps=300", "--chains", "2")


def runs_of(results, method):
    """The number of runs of a method on tuning seeds."""
    specs = [json.loads(path.read_text()) for path in results.rglob("spec.json")]
    return sum(spec["method"] == method and spec["seed"] >= TUNING_SEED for spec in specs)


@pytest.fixture(autouse=True)
def few_finalist_seeds(monkeypatch):
    """Three of the ten: a run of each finalist on each is most of what a search costs."""
    monkeypatch.setattr("plugins.tuning.seeds.PER_FINALIST", 3)


def test_a_study_is_used_by_name_and_its_trials_are_no_results(bench_json, tmp_path):
    code, records, _ = bench_json(*TUNE, "--trials", 3, "--seeds", 1)
    assert code == 0
    assert [r["method"] for r in records] == ["sgld", "sghmc"]
    for one in records:
        uppers = [finalist["upper"] for finalist in one["searches"][0]["finalists"]]
        assert one["value"] <= one["upper"] == min(upper for upper in uppers if upper is not None)
    for r in records:  # a noisy gradient of gaussian2d costs a hundredth of a pass
        assert r["passes"] == pytest.approx(runs_of(tmp_path / "r", r["method"]) * 300 * 2 / 100)
    assert all(r["trials"] == 3 and r["seeds"] == [TUNING_SEED] for r in records)
    tuned = records[1]["settings"]
    assert {"schedule", "sampler.friction"} < set(tuned)
    assert bench_json("report", "leaderboard")[1] == []  # trials only

    again = bench_json(*TUNE, "--trials", 3, "--seeds", 1)
    assert again[1] == records
    assert set(re.findall(r"(\d+) to do", again[2])) == {"0"}

    run = ("run", "--sampler", "sghmc", "--task", "gaussian2d", "--budget", "steps=300", "--seeds", "0-1")
    assert bench_json(*run, "--settings", "tuned")[0] == 0
    (row,) = [r for r in bench_json("report", "leaderboard")[1] if r["metric"] == "joint_error"]
    assert row["tuned"].startswith(f"study tuned: 3 trials at passes=3, {records[1]['passes']:g} data passes")
    assert row["seeds"] == 2
    spec = next(json.loads(p.read_text()) for p in (tmp_path / "r").rglob("spec.json") if '"seed": 0' in p.read_text())
    assert spec["sampler"]["params"]["friction"] == tuned["sampler.friction"]
    assert spec["schedule"]["name"] == tuned["schedule"]
    step = next(name for name in tuned if name.startswith("schedule."))
    assert spec["schedule"]["params"][step.partition(".")[2]] == tuned[step]
    assert spec["origins"][step]["provenance"] == "tuned"
    assert spec["origins"][step]["tuning"]["schedules"] == ["constant", "polynomial"]

    # Made with other code: the rows and `tune` itself say so.
    study = tmp_path / "r" / "tuning" / "tuned.json"
    record = json.loads(study.read_text())
    for one in record["tuned"]:
        one["code"] |= dict.fromkeys(("sampler", "schedule"), "0" * 64)
    study.write_text(json.dumps(record))
    bench_json(*run[:-1], "7", "--settings", "tuned")
    (row,) = [r for r in bench_json("report", "leaderboard")[1] if r["metric"] == "joint_error" and r["seeds"] == 3]
    assert "the code of the sampler and the schedule has changed since" in row["tuned"]
    assert "the trials are run again" in bench_json(*TUNE, "--trials", 3, "--seeds", 1)[2]


def test_what_the_package_has_of_another_budget_is_a_finalist_in_an_empty_folder(bench_json):
    shipped = json.loads((Path(studies.__file__).parent / "tuned.json").read_text(encoding="utf-8"))["tuned"]
    (of_quick,) = (
        one["settings"]
        for one in shipped
        if (one["method"], one["task"], one["budget"]) == ("sgld", "gaussian2d", "quick")
    )
    words = ("tune", "--sampler", "sgld", "--task", "gaussian2d", "--chains", 2, "--trials", 3, "--seeds", 1)
    (longer,) = bench_json(*words, "--budget", "steps=200")[1]
    assert of_quick in [one["settings"] for one in longer["searches"][-1]["finalists"]]


def test_what_was_chosen_at_another_budget_is_a_finalist_with_as_many_and_with_as_long_cycles(bench_json, tmp_path):
    words = ("tune", "--sampler", "csgld", "--task", "gaussian2d", "--chains", 2, "--trials", 3, "--seeds", 1)
    (short,) = bench_json(*words, "--budget", "steps=200")[1]
    (longer,) = bench_json(*words, "--budget", "steps=800")[1]
    (search,) = (one for one in longer["searches"] if one["budget"] == longer["budget"])
    uppers = {json.dumps(one["settings"], sort_keys=True): one["upper"] for one in search["finalists"]}
    for factor in (1, 4):
        carried = {**short["settings"], "schedule.cycles": factor * short["settings"]["schedule.cycles"]}
        assert longer["upper"] <= uppers[json.dumps(carried, sort_keys=True)]
    (other,) = bench_json(*words, "--budget", "steps=400", "--study", "other")[1]
    of_another = [one["settings"] for one in other["searches"][0]["finalists"]]
    assert carried not in of_another
    spaces = [f"--space=schedule.{space}" for space in ("cycles=1:2", "beta=0.1:0.9", "step_size=0.001:0.1")]
    (stated,) = bench_json(*words, "--budget", "steps=600", *spaces)[1][0]["searches"][-1:]
    assert all(one["settings"]["schedule.cycles"] <= 2 for one in stated["finalists"])
    many = {**longer["settings"], "schedule.cycles": 30}
    file = tmp_path / "r" / "tuning" / "tuned.json"
    study = json.loads(file.read_text())
    kept = [{**one, "settings": many} if one["budget"] == longer["budget"] else one for one in study["tuned"]]
    file.write_text(json.dumps({**study, "tuned": kept}))
    code, (shortest,), _ = bench_json(*words, "--budget", "steps=20")
    assert code == 0
    refused = [one for one in shortest["searches"][-1]["finalists"] if one["settings"] == many]
    assert [one["upper"] for one in refused] == [None]  # more cycles than steps


@pytest.mark.slow
def test_all_samplers_and_a_group_of_tasks_are_searched_with_settings_of_one(bench_json, monkeypatch, tmp_path):
    monkeypatch.setattr(groups, "_methods", lambda _: ["sgld", "sghmc", "mc-dropout"])
    monkeypatch.setattr(Registry, "task_groups", lambda _: {"planes": ["gaussian2d", "mixture5"]})
    command = ("tune", "--sampler", "all", "--task", "planes", "--budget", "steps=20", "--chains", "2", "--trials", 1)
    code, records, said = bench_json(*command, "--seeds", 1, "--set", "sghmc:sampler.friction=0.3")
    assert code == 0
    assert [(r["method"], r["task"]) for r in records] == [
        (method, task) for task in ("gaussian2d", "mixture5") for method in ("sgld", "sghmc")
    ]
    assert said.count("mc-dropout: needs layout of a potential, which the task does not provide") == 2
    specs = [json.loads(path.read_text()) for path in tmp_path.rglob("spec.json")]
    assert {spec["sampler"]["params"].get("friction") for spec in specs} == {None, 0.3}
    assert not any(
        "sampler.friction" in one["space"].get(r["settings"]["schedule"], {}) for r in records for one in r["searches"]
    )


def test_an_interrupted_study_ends_as_an_undisturbed_one(bench_json, monkeypatch):
    launch, launched = local.launch, []

    def stopped(*words, **more):
        launched.append(1)
        if len(launched) == 2:
            raise KeyboardInterrupt
        return launch(*words, **more)

    words = ("tune", "--sampler", "sgld", "--task", "gaussian2d", "--budget", "steps=200", "--trials", 6, "--seeds", 1)
    with monkeypatch.context() as patch:
        patch.setattr(local, "launch", stopped)
        assert bench_json(*words)[0] == 130
    code, resumed, said = bench_json(*words)
    assert code == 0
    assert "5 runs: 5 done before, 0 to do" in said
    assert bench_json(*words, folder="other")[1] == resumed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "schedule.step_size=0.1"), "nothing to tune of sgld on gaussian2d"),
        (("--objective", "joint_eror"), "did you mean joint_error"),
        (("--space", "schedule.step_size=0:1"), "schedule.step_size = 0.0 is outside (0, inf)"),
        (("--space", "schedule.step_size=1:0.5"), "the lower end is not below the upper one"),
        (("--space", "schedule.step_size"), "is not NAME=LOW:HIGH"),
        (("--space", "schedule.step=1:2"), "did you mean schedule.step_size?"),
        (("--study", "../x"), "is not a name of a study"),
        (("--study", "one-setting"), "is not a name of a study"),
        (("--budget", "seconds=1"), "unknown budget 'seconds=1'"),
    ],
)
def test_bad_input_runs_nothing(bench_json, tmp_path, words, message):
    code, _, said = bench_json("tune", "--sampler", "sgld", "--task", "gaussian2d", *words)
    assert code == 2
    assert message in said
    assert not (tmp_path / "r" / "runs").exists()


def test_settings_of_no_study(bench_json, tmp_path):
    run = ("run", "--sampler", "sgld", "--task", "gaussian2d", "--budget", "smoke")
    assert "there is no study 'none'" in bench_json(*run, "--settings", "none")[2]
    study = tmp_path / "r" / "tuning" / "mine.json"
    study.parent.mkdir(parents=True)
    study.write_text("{}")
    code, _, said = bench_json(*run, "--settings", "mine")
    assert code == 4
    assert "mine.json is not a study" in said
    assert bench_json("run", "--sampler", "sgld", "--task", "gaussian2d", "--seeds", TUNING_SEED)[0] == 2


def test_whole_numbers_tried_twice_run_once_and_a_range_may_leave_the_usual_value_out(bench_json, tmp_path, recwarn):
    words = ("tune", "--sampler", "hmc", "--task", "gaussian2d", "--budget", "steps=20", "--chains", 1, "--trials", 4,
             "--seeds", 1)  # fmt: skip
    code, (record,), said = bench_json(*words, "--space", "sampler.leapfrog=1:2")
    assert code == 0
    assert "is held by" not in said
    assert not [str(one.message) for one in recwarn if "out of range" in str(one.message)]
    assert record["searches"][0]["refused"] == record["searches"][0]["pruned"] == 0
    assert record["settings"]["sampler.leapfrog"] in {1, 2}
    assert record["value_untuned"] is None  # leapfrog is 10
    assert runs_of(tmp_path / "r", "hmc") <= 2 + 2 * 10


ONE_AT_A_TIME = """
from dataclasses import dataclass

from harness import Info, hook
from tasks.synthetic.gaussian2d import Gaussian2D


@dataclass(frozen=True, kw_only=True)
class Alone(Gaussian2D):
    def max_block(self, device):
        return 1


@hook
def bench_tasks():
    return [Info("alone", "alone:Alone", "")]
"""


@pytest.mark.slow
def test_where_seeds_do_not_advance_together_hopeless_trials_cost_one_run(bench_with):
    command = bench_with("alone", ONE_AT_A_TIME)
    words = ("--sampler", "sgld", "--task", "alone", "--budget", "steps=50", "--chains", 1, "--trials", 10)
    code, (record,), _ = command("tune", *words, "--seeds", 2)
    assert code == 0
    search = record["searches"][0]
    assert search["pruned"] > 0
    ended = search["pruned"] + search["failed"]
    runs = 2 * 10 - ended + len(search["finalists"]) * len(record["finalist_seeds"])
    assert record["passes"] == pytest.approx(50 * runs / 100)
    assert len(record["run_keys"]) == len(record["finalist_seeds"])


def test_a_study_without_a_result_is_not_written(bench_json, tmp_path):
    words = ("tune", "--sampler", "sgld", "--task", "gaussian2d", "--budget", "steps=200", "--chains", 1, "--trials", 1)
    code, records, said = bench_json(*words, "--seeds", 1, "--space", "schedule.step_size=50:90")
    assert (code, records) == (1, [])
    assert "no trial succeeded" in said
    assert not (tmp_path / "r" / "tuning" / "tuned.json").exists()


def test_without_optuna(bench_json, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *of: None if name == "optuna" else find(name, *of))
    code, _, said = bench_json("tune", "--sampler", "sgld", "--task", "gaussian2d")
    assert code == 2
    assert "pip install 'sgmcmc-bench[tune]'" in said


def spaces_of(method, task, given=(), stated=()):
    return find_spaces(registry(), find_pair(registry(), method, task), dict(given), "quick", list(stated))


def _search(seeds, loss, name="a", trials=40):
    """A whole search of a loss of (values, seed)."""
    limits = {"h": Range(1e-4, 1.0, 1e-3), "n": Range(1, 30, 4, whole=True)}
    search = Search(name, {"constant": Space(limits)}, trials)
    while search.ask():
        for k in range(seeds):
            for trial in search.round:
                if trial.going:
                    trial.seen.append(loss(trial.values, k))
            if k < seeds - 1:
                search.stop_hopeless()
        search.tell()
    return search


def _bowl(values, seed):
    if values["h"] > 0.5:
        return math.inf  # as a run that diverged
    return (math.log10(values["h"]) + 2) ** 2 + (values["n"] / 10 - 1) ** 2 + 0.01 * seed


def test_the_search_finds_the_minimum_and_repeats_itself():
    search = _search(1, _bowl)
    assert search.trials[0].values == {"schedule": "constant", "h": 1e-3, "n": 4}
    assert len(search.trials) == 40
    assert search.best.objective < 0.1 < _bowl({"h": 1e-3, "n": 4}, 0)
    assert [t.values for t in _search(1, _bowl).trials] == [t.values for t in search.trials]
    assert [t.values for t in _search(1, _bowl, "b").trials] != [t.values for t in search.trials]


def test_hopeless_trials_end_after_their_first_seed_and_never_win():
    search = _search(2, _bowl)
    ended = [trial for trial in search.trials if not trial.going]
    assert any(trial.stopped for trial in ended)
    assert all(len(trial.seen) == 1 for trial in ended)
    assert search.best.going
    assert np.median([t.seen[0] for t in ended]) > np.median([t.seen[0] for t in search.trials if t.going])
    assert _search(2, lambda *_: math.inf, trials=6).best is None


@dataclass(frozen=True, kw_only=True)
class Classes(DataTask):
    """Rows that are their own numbers, so that each can be followed."""

    protocols = (Protocol("default", "", {"smoke": 10}),)
    prior_precision = 1.0
    batch: int | None = param(None, "[1, inf)", "n", source="ours")

    def dim(self):
        return 2

    def arrays(self, part):
        rows = np.arange(45.0) + (1000 if part == "test" else 0)
        return {"x": rows, "label": (rows % 2).astype(np.int64)}

    def logits(self, theta, rows):
        return theta[:, None, :] * rows["x"][..., None]


def test_tuning_sees_no_test_row_and_is_not_tested_on_what_it_was_trained_on():
    usual, tuning = (Classes().build([Streams(seed, 0)], "cpu") for seed in (0, TUNING_SEED))
    assert usual.part("test")["x"].min() == 1000
    trained, tested = (set(tuning.part(name)["x"].tolist()) for name in ("train", "test"))
    assert tested == {9.0, 19.0, 29.0, 39.0}
    assert trained == set(np.arange(45.0).tolist()) - tested
    assert len(tuning.part("train")["x"]) == 45
    # What the energy and the observer use is that, too.
    assert tuning.arrays["x"][:45].tolist() == tuning.part("train")["x"].tolist()
    assert tuning.held_out["x"].tolist() == sorted(tested)


@pytest.mark.data
@pytest.mark.parametrize(("task", "metric"), [("airfoil", "nll"), ("notmnist", "nll"), ("blr-heart", "joint_error")])
def test_held_out_rows_decide_where_a_task_predicts_and_not_a_reference(task, metric):
    assert objective(task, load_plugin("tasks", task).metrics, None).metric == metric


@pytest.mark.parametrize(("name", "metric", "all_rows"), [
    ("tiny-bnn", None, False), ("tiny-bnn", "joint_error", True), ("tiny-bnn", "function_sd_error", True),
    ("tiny-bnn", "lppd", False), ("gaussian2d", "joint_error", False), ("mixture5", "wasserstein2", False),
])  # fmt: skip
def test_no_rows_are_held_out_where_a_search_minimises_an_error_against_the_truth(name, metric, all_rows):
    task = load_plugin("tasks", name)()
    of_search = SearchSeeds(per_trial=1)
    seeds = objective(name, task.metrics, metric).seeds([*of_search.trials, *of_search.finalists])
    assert seeds == [ALL_ROWS_SEED * all_rows + TUNING_SEED * (not all_rows) + k for k in (0, *range(100, 103))]
    assert {Streams(seed, 0).holds_out for seed in seeds} == {not all_rows}


def test_which_runs_hold_out_rows_is_decided_in_one_place():
    """A task that compares seeds itself would hold out rows in searches on all of them."""
    files = [*Path(__file__).parents[2].joinpath("tasks").rglob("*.py")]
    assert len(files) > 50
    assert [path.name for path in files if "TUNING_SEED" in path.read_text(encoding="utf-8")] == []


@pytest.mark.data
def test_a_search_by_an_error_against_a_truth_that_nobody_knows_ends_soon(bench_json, tmp_path):
    words = ("tune", "--sampler", "sgld", "--task", "energy", "--budget", "smoke", "--chains", 1, "--seeds", 2)
    code, records, said = bench_json(*words, "--trials", 60, "--objective", "joint_error")
    assert (code, records) == (1, [])
    assert "none of 10 finished runs has a value of joint_error" in said
    assert runs_of(tmp_path / "r", "sgld") == 10


def test_a_search_by_a_metric_that_few_runs_have_goes_on(bench_json, tmp_path):
    """Of the friction alone: without a value, a search of step sizes would try a coarse pass of them too."""
    words = ("tune", "--sampler", "sghmc", "--task", "mixture25", "--budget", "steps=20", "--chains", 1, "--seeds", 1,
             "--set", "schedule=constant", "--set", "schedule.step_size=1e-4")  # fmt: skip
    code, records, _ = bench_json(*words, "--trials", 11, "--objective", "last_mode_first_visit")
    assert (code, records) == (1, [])
    assert runs_of(tmp_path / "r", "sghmc") == 11


@pytest.mark.parametrize("name", [
    "tiny-bnn", pytest.param("mnist-logistic", marks=pytest.mark.data), pytest.param("energy", marks=pytest.mark.data),
])  # fmt: skip
def test_metrics_against_the_truth_have_values_where_no_rows_are_held_out_and_others_on_all_tuning_seeds(
    name,
):
    task = load_plugin("tasks", name)()

    def valued(seed):
        loop = run_loop(make_loop(task, SGLD(), Constant(step_size=1e-9), 20, seeds=(seed,)))
        return {metric for metric, value in loop.runs[0].observer.outcome().metrics.items() if value is not None}

    held_out, whole, usual = (valued(seed) for seed in (TUNING_SEED, ALL_ROWS_SEED, 0))
    assert "nll" in held_out
    assert whole == usual
    known = {metric.name for metric in task.metrics} & AGAINST_TRUTH if name != "energy" else set()
    assert usual - held_out == known


def test_a_network_is_tuned_on_held_out_rows():
    task = load(registry().target("tasks", "landsat"))()
    problem = task.build([Streams(TUNING_SEED, 0)], "cpu")
    train, whole = problem.set("train")["x"], task.arrays("train")["x"]
    assert problem.set("test")["x"].tolist() == whole[9::10].tolist()
    assert train[9::10].tolist() == whole[8::10].tolist()[: len(train[9::10])]
    assert len(problem.labels["test"]) == len(whole) // 10


@pytest.fixture
def unsettled(tmp_path, monkeypatch):
    """Adaptive entries stay as `init` leaves them where a stability limit is found: no step size is taken from it."""
    monkeypatch.setattr("harness.engine.linear.at_work", lambda sampler: sampler)
    monkeypatch.setattr("harness.runs.plugin_metadata._known", {})
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))


@pytest.mark.slow
@pytest.mark.usefixtures("unsettled")
def test_the_shipped_study_is_of_pairs_that_exist(tmp_path):
    study = studies.load(registry(), tmp_path, "tuned")
    assert study.records
    for (method, task, protocol, budget, _), record in study.records.items():
        pair = with_study(registry(), find_pair(registry(), method, f"{task}@{protocol}"), study, budget, {})
        settings = resolve(registry(), pair, {}, record["budget"])
        parts = {"sampler": settings.sampler_params, "schedule": settings.schedule_params}
        for name, value in record["settings"].items():
            if "." in name:
                part, _, parameter = name.partition(".")
                assert parts[part][parameter] == value
                assert settings.origins[name].provenance == "tuned"
                assert settings.origins[name].tuning.version == studies.version(record)
        assert all(seed >= TUNING_SEED for seed in record["seeds"])
        earlier = studies.version(record) == 1 and record["value_untuned"] is not None
        assert not earlier or record["value"] <= record["value_untuned"]


def test_the_command_line_is_stronger_than_a_study_and_what_a_method_fixes_is_not_searched(tmp_path):
    study = studies.load(registry(), tmp_path, "tuned")
    given = {"sampler.friction": 0.5}
    pair = with_study(registry(), find_pair(registry(), "sghmc", "gaussian2d"), study, "", given)
    settings = resolve(registry(), pair, given)
    assert settings.sampler_params["friction"] == 0.5
    assert settings.origins["schedule.step_size"].provenance == "tuned"
    assert list(spaces_of("sghmc-frictionless", "gaussian2d")["constant"].ranges) == ["schedule.step_size"]
    assert "sampler.friction" in spaces_of("sghmc", "gaussian2d")["constant"].ranges


@pytest.mark.parametrize("kind", ["samplers", "schedules"])
def test_declared_intervals_are_of_values_that_the_class_takes(kind):
    for offer in registry().offers(kind):
        cls = load(offer.info.target)
        needed = {f.name: 0.01 for f in schema(cls) if f.required}
        for field in schema(cls):
            value = needed.get(field.name, field.default)
            for end in field.search_range(value) or ():
                assert dataclasses.is_dataclass(cls(**{**needed, field.name: int(end) if field.type == "int" else end}))
    with pytest.raises(ValueError, match="not within allowed"):
        param(0.1, "(0, 0.5)", "", tune="[0.01, 1]")


UNSCALED = """
from dataclasses import dataclass

from harness import Info, hook
from tasks.synthetic.gaussian2d import Gaussian2D


@dataclass(frozen=True, kw_only=True)
class Unscaled(Gaussian2D):
    def curvature(self):
        return {curvature}


@hook
def bench_tasks():
    return [Info("unscaled", "{name}:Unscaled", "")]
"""


@pytest.mark.parametrize(("curvature", "failed"), [pytest.param("None", 0, marks=pytest.mark.slow), ("1e-12", 4)])
def test_where_no_curvature_helps_a_coarse_pass_finds_the_step_size(bench_with, curvature, failed):
    """The task states none, or one that is so wrong that every trial diverges; the right one is 10."""
    name = f"unscaled{failed}"
    command = bench_with(name, UNSCALED.format(curvature=curvature, name=name))
    words = ("--sampler", "csgld", "--task", "unscaled", "--budget", "steps=100", "--chains", 1, "--trials", 4)
    code, (record,), _ = command("tune", *words, "--seeds", 1)
    assert code == 0
    assert record["searches"][0]["coarse"] == 10
    assert record["trials"] == 10 + 4 + failed + 10 * record["searches"][0]["widenings"]
    assert 1e-4 < record["settings"]["schedule.step_size"] < 0.4
