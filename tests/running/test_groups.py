"""`--sampler all` and `density`, `--task GROUP`, and settings of one sampler."""

import copy
from dataclasses import replace

import pytest

from harness import Bench, Info, UsageError
from harness.contracts.offers import Offer, Plugin
from harness.contracts.registry import registry
from harness.reporting.requests import request_for
from harness.runs.plan import RunRequest, expand, size
from plugins.inspection.ls import _offers
from plugins.running import groups
from plugins.running.groups import members, named

METHODS = ["sgld", "hmc", "sgfs", "sgrld", "csgld", "mc-dropout"]


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(groups, "_methods", lambda _: METHODS)


def pairs(requests):
    return {(method, task) for request in requests for method in request.samplers for task in request.tasks}


@pytest.mark.usefixtures("few")
def test_all_runs_what_can_run_on_each_task_and_says_once_what_cannot(tmp_path):
    said = []
    bench = Bench(tmp_path, say=said.append)
    asked = RunRequest(["all"], ["mixture5", "blr-heart"], budget="quick", given={"schedule.step_size": 0.01})
    requests = named(bench, [asked])
    runs = {"sgld", "hmc", "csgld"}
    assert pairs(requests) == {(m, "mixture5") for m in runs} | {(m, "blr-heart") for m in {*runs, "sgfs", "sgrld"}}
    lacks = "left out on {0}: {1}: it needs {2} of a potential, which task {0} does not provide"
    needs = {"sgfs": "scores", "sgrld": "metric", "mc-dropout": "layout"}
    expected = [lacks.format("mixture5", *need) for need in needs.items()]
    assert [line.partition(";")[0] for line in said] == [
        *expected,
        lacks.format("blr-heart", "mc-dropout", "layout"),
    ]
    assert {method for method, _ in pairs(named(bench, [asked]))} == {*runs, "sgfs", "sgrld"}


@pytest.mark.usefixtures("few")
def test_density_is_what_needs_nothing_that_a_density_lacks(tmp_path):
    asked = RunRequest(["sgfs", "density"], ["blr-heart"], given={"schedule.step_size": 0.01}, budget="quick")
    requests, left_out = members(registry(), asked, tmp_path)
    assert pairs(requests) == {(method, "blr-heart") for method in ("sgfs", "sgld", "hmc", "csgld")}
    assert not left_out


@pytest.mark.usefixtures("few")
def test_where_nothing_can_run_the_reason_is_an_error(tmp_path):
    asked = RunRequest(["all"], ["mixture5"], given={"sampler.no_such": 1})
    with pytest.raises(UsageError, match=r"no sampler can run on mixture5; sgld on mixture5: unknown setting"):
        members(registry(), asked, tmp_path)
    with pytest.raises(UsageError, match="unknown task 'mixture6'"):
        members(registry(), RunRequest(["all"], ["mixture6"]), tmp_path)


def test_a_group_stands_for_its_tasks_with_the_same_protocol(tmp_path):
    known = registry()
    logistic = ["blr-a9a", "blr-australian", "blr-german", "blr-heart"]
    assert known.task_groups()["logistic"][: len(logistic)] == logistic
    first = [f"{name}@minibatches" for name in logistic[:2]]
    assert known.tasks(["mixture5", "Logistic@minibatches"])[:3] == ["mixture5", *first]
    asked = RunRequest(["sgld"], ["logistic"], budget="quick", given={"schedule.step_size": 1e-4})
    assert pairs(named(Bench(tmp_path), [asked])) == {("sgld", name) for name in known.task_groups()["logistic"]}
    assert request_for(Bench(tmp_path).store(), known, {"task": ["logistic"]}).tasks[:4] == tuple(logistic)
    with pytest.raises(UsageError, match="unknown task 'logistics'; did you mean logistic"):
        Bench(tmp_path).planned([replace(asked, tasks=["logistics"])])


def test_every_task_of_ours_has_a_group_and_none_has_the_name_of_a_task():
    known = registry()
    assert "" not in known.task_groups()
    assert sorted(name for names in known.task_groups().values() for name in names) == known.names("tasks")
    assert not {*known.task_groups()} & {*known.names("tasks")}


def test_a_task_without_a_group_is_listed_last_and_precedes_a_group_of_its_name():
    infos = Info("logistic", "a:B"), Info("b", "a:B", group="logistic")
    known = copy.copy(registry())
    offers = [Offer(info, "tasks", "mine", "mine", "1") for info in infos]
    known.plugins = [Plugin("mine", "mine", "1", "", offers=offers)]
    assert known.tasks(["logistic", ""]) == ["logistic", ""]
    assert [row["group"] for row in _offers(known, "tasks")] == ["logistic", ""]


def steps(given, samplers, sweep=None):
    request = RunRequest(samplers, ["mixture25"], seeds=(0, 1), budget="steps=100", given=given, sweep=sweep or {})
    groups_of_runs = expand(registry(), request)
    assert size(registry(), [request]) == sum(len(specs) for _, specs in groups_of_runs)
    return [(settings.pair.method.name, settings.schedule_params["step_size"]) for settings, _ in groups_of_runs]


def test_a_setting_of_one_sampler_is_for_it_alone():
    common, both = {"schedule": "constant", "schedule.step_size": 0.1}, ("sgld", "sghmc")
    assert steps({**common, "SGLD:schedule.step_size": 0.2}, both) == [("sgld", 0.2), ("sghmc", 0.1)]
    assert (
        steps({"csgld:schedule.step_size": 0.3, "schedule.step_size": 0.1}, ("csgld", "sgmcmc-bench:csgld"))
        == [("csgld", 0.3)] * 2
    )
    swept = steps(common, both, {"sghmc:schedule.step_size": [1, 2, 3]})
    assert swept == [("sgld", 0.1), ("sghmc", 1.0), ("sghmc", 2.0), ("sghmc", 3.0)]
    given = {"schedule": "constant", "sgld:schedule.step_size": 0.2}
    assert steps(given, both, {"schedule.step_size": [1, 2]}) == [
        ("sgld", 0.2), ("sghmc", 1.0), ("sghmc", 2.0)
    ]  # fmt: skip


def test_a_setting_of_another_sampler_is_refused(tmp_path):
    for owner, words in (("sghmc", "sghmc is not among the samplers"), ("sghcm", "unknown sampler 'sghcm'")):
        with pytest.raises(UsageError, match=words):
            Bench(tmp_path).plan("sgld,csgld", "mixture25", settings={f"{owner}:schedule.step_size": 1})
    frame = Bench(tmp_path).plan(["sgld", "csgld"], "mixture25", seeds=[0], settings={"csgld:schedule.step_size": 1})
    assert frame["method"].to_list() == ["sgld", "csgld"]


@pytest.mark.parametrize(
    ("sampler", "task", "text"),
    [
        ("sgld", "landsat", "r/4435: try --set schedule.step_size=2e-5, or bench tune"),
        ("santa", "landsat", "r: try --set schedule.step_size=1e-3, or bench tune"),
    ],
)
def test_where_no_step_size_is_known_one_is_named_and_it_plans(tmp_path, sampler, task, text):
    words = f"no step size is known for {sampler} on {task}; a learning rate r on the mean loss is {text}"
    with pytest.raises(UsageError, match=words):
        Bench(tmp_path).plan(sampler, task, seeds=[0], study="one-setting")
    size_to_try = float(text.partition("step_size=")[2].partition(",")[0])
    asked = {"seeds": [0], "study": "one-setting", "settings": {"schedule.step_size": size_to_try}}
    assert len(Bench(tmp_path).plan(sampler, task, **asked)) == 1


@pytest.mark.parametrize("name", ["sampler.lr", "lr", "schedule.learning_rate", "task.LR", "sampler.step_size"])
@pytest.mark.parametrize(("schedule", "meant"), [("constant", "schedule.step_size"), ("polynomial", "schedule.a")])
def test_a_learning_rate_leads_to_the_step_size(tmp_path, name, schedule, meant):
    with pytest.raises(UsageError, match=rf"unknown setting '{name}' .*; did you mean {meant}\? A learning rate r"):
        Bench(tmp_path).plan("sgld", "mixture25", schedule=schedule, settings={name: 1})
