"""A search with `--set` is of what it was given: its settings are for commands that give the same, and no others."""

import json
from dataclasses import replace

import pytest

from harness import UsageError, registry
from harness.runs import RunRequest, expand
from harness.runs.settings import find_pair, resolve
from harness.tasks import TUNING_SEED
from plugins.running.groups import refused
from plugins.tuning import studies

pytest.importorskip("optuna", reason="bench tune needs optuna, an optional extra")

RECORD = {
    "method": "sghmc", "task": "gaussian2d", "protocol": "csgmcmc-slides", "budget": "quick", "trials": 3,
    "passes": 1.0, "code": {}, "settings": {"schedule": "constant", "schedule.step_size": 0.1}, "search_version": 3,
    "seeds": [TUNING_SEED], "finalist_seeds": [TUNING_SEED + 100], "schedules": ["constant"], "searches": [],
}  # fmt: skip


def of_search(h, given=None, **more):
    """A record that chose a step size, of a search that was given settings; None: as before these were recorded."""
    settings = {"schedule": "constant", "schedule.step_size": h}
    return {**RECORD, "settings": settings, **({} if given is None else {"given": given}), **more}


PLAIN, FRICTION = of_search(0.1, {}), of_search(0.2, {"sampler.friction": 0.5})
TASK = of_search(0.3, {"task.noise": 2.0})
BOTH = of_search(0.4, {"sampler.friction": 0.5, "task.noise": 2.0}, budget="paper")


def step_size(records, given, sweep=None):
    """The tuned step size of the run that a command asks for."""
    study = studies.Study("mine", {studies.key(one): one for one in records})
    request = RunRequest(["sghmc"], ["gaussian2d"], [0], 1, "quick", given, sweep or {})
    ((settings, _),) = expand(registry(), request, study)
    origin = settings.origins["schedule.step_size"]
    assert origin.provenance == "tuned"
    return origin.value


@pytest.mark.parametrize(
    ("given", "h"),
    [
        ({}, 0.1), ({"sampler.friction": "0.50"}, 0.2), ({"sampler.friction": 0.4}, 0.1), ({"task.noise": "2"}, 0.3),
        ({"task.noise": "3"}, 0.1), ({"task.noise": "2", "sampler.friction": "0.5", "run.thin": "2"}, 0.4),
    ],
)  # fmt: skip
def test_a_command_has_the_settings_of_the_search_that_was_given_the_same(given, h):
    assert step_size([PLAIN, FRICTION, TASK, BOTH], given) == h
    assert step_size([BOTH, TASK, FRICTION, PLAIN], {}, {name: [value] for name, value in given.items()}) == h


@pytest.mark.parametrize("given", [{}, {"task.noise": "3"}, {"sampler.friction": "0.4"}])
def test_no_other_command_has_them(given):
    with pytest.raises(UsageError, match=r"no settings of sghmc .* but with sampler.friction=0.5 or but with task.no"):
        step_size([FRICTION, TASK], given)


def test_a_group_of_samplers_has_those_of_searches_that_were_given_the_same():
    study = studies.Study("mine", {studies.key(one): one for one in (FRICTION, {**PLAIN, "method": "sgld"})})
    reasons = [
        refused(registry(), RunRequest([method], ["gaussian2d"], [0], 1, "quick", given), study)
        for method, given in (("sghmc", {"sampler.friction": "0.5"}), ("sghmc", {}), ("sgld", {"run.thin": "2"}))
    ]
    assert [bool(reason) for reason in reasons] == [False, True, False]


def test_an_earlier_record_is_of_what_any_search_at_its_budget_was_given():
    def searches(*given, budget="quick"):
        return [{"budget": budget, "given": one} for one in given]

    earlier = of_search(0.5, searches=searches({}, {"task.noise": "2"}))
    assert studies.key(earlier)[-1] == "task.noise=2"
    for harmless in (searches({}), searches({"schedule": "constant", "run.compile": "plain"})):
        assert studies.key(of_search(0.5, searches=harmless))[-1] == ""
    assert step_size([of_search(0.5, searches=searches({"task.noise": "2"}, budget="paper"))], {}) == 0.5


def test_searches_that_were_given_other_settings_are_kept_apart(bench_json, tmp_path, monkeypatch):
    monkeypatch.setattr("plugins.tuning.seeds.PER_FINALIST", 1)
    words = ("--sampler", "sghmc", "--task", "gaussian2d", "--chains", 1)
    tune = ("tune", *words, "--seeds", 1, "--trials", 1, "--study", "mine", "--budget", "steps=40")
    noisy, friction = ("--set", "task.noise=2"), ("--set", "sampler.friction=0.5")
    chosen = {}
    for given in ((), noisy, friction, ("--set", "run.thin=1", "--set", "run.compile=plain")):
        code, (one,), said = bench_json(*tune, *given)
        assert code == 0
        chosen.setdefault(studies.key(one)[-1], one)
        assert ("with the same --set" in said) == bool(one["given"])
    assert [*chosen] == ["", "task.noise=2.0", "sampler.friction=0.5"]  # the last restates the protocol
    assert studies.read(tmp_path / "r" / "tuning" / "mine.json").keys() == {*map(studies.key, chosen.values())}
    assert one["trials"] == 4  # the cost is of all of them

    run = ("run", *words, "--budget", "steps=40", "--seeds", 0, "--settings", "mine")
    assert bench_json(*run, *friction)[0] == 0
    spec = next(
        spec for spec in (json.loads(path.read_text()) for path in tmp_path.rglob("spec.json")) if spec["seed"] == 0
    )
    assert spec["sampler"]["params"]["friction"] == 0.5
    assert spec["origins"]["sampler.friction"]["provenance"] == "user"
    assert spec["origins"]["schedule.step_size"]["value"] in chosen["sampler.friction=0.5"]["settings"].values()
    (row,) = [r for r in bench_json("report", "leaderboard")[1] if r["metric"] == "joint_error"]
    assert row["ruleset"] == "user's"

    (longer,) = bench_json(*tune[:-1], "steps=80", *noisy)[1]
    finalists = [one["settings"] for one in longer["searches"][-1]["finalists"]]
    assert chosen["task.noise=2.0"]["settings"] in finalists
    assert len(finalists) <= 2


def test_what_a_command_gives_is_without_what_restates_the_protocol():
    given = {"schedule": "constant", "schedule.step_size": "0.1", "run.burn_in": "0.25", "run.moved": "true",
             "run.thin": "1", "run.compile": "plain", "sampler.friction": "0.5"}  # fmt: skip
    pair = replace(find_pair(registry(), "sghmc", "gaussian2d"), defaults_only=True)
    assert studies.given_by(resolve(registry(), pair, given), given) == {
        "schedule.step_size": 0.1, "run.burn_in": 0.25, "run.moved": True, "sampler.friction": 0.5,
    }  # fmt: skip
    given |= {"run.moved": "false"}
    assert "run.moved" not in studies.given_by(resolve(registry(), pair, given), given)
