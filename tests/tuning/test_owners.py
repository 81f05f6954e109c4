"""Whose settings count: a plugin may choose those of its own samplers and methods, and a row says who chose them."""

import copy
import json
from dataclasses import replace

import pytest

from harness import Info, Method
from harness.contracts.offers import Offer, Plugin
from harness.contracts.registry import load, registry
from harness.runs import stated
from harness.runs.settings import find_pair, resolve, with_study
from harness.runs.stated import stated_settings
from plugins.tuning import studies

TASK = "gaussian2d"
SGLD = "plugins.samplers.sgld:SGLD"


@pytest.fixture
def known(tmp_path):
    """The registry with a plugin of another distribution: a sampler, a method and a study, also of our sampler."""

    def record(method, h):
        return {
            "method": method, "task": TASK, "protocol": load(task.target).protocols[0].name, "budget": "quick",
            "settings": {"schedule": "constant", "schedule.step_size": h}, "trials": 30, "passes": 1.0, "code": {},
        }  # fmt: skip

    ours = registry()
    task = ours.find("tasks", TASK)
    file = tmp_path / "tuned.json"
    rows = [record("sgld", 9.0), record("csgld", 9.0), record("mine", 0.3), record("my-method", 0.4)]
    file.write_text(json.dumps({"format": 2, "tuned": rows}))
    sampler, method = Info("mine", SGLD), Method("my-method", "mine", "", settings={"schedule.step_size": 0.2})
    kinds = (sampler, "samplers"), (method, "methods")
    offers = [Offer(info, kind, "theirs", "theirs", "1") for info, kind in kinds]
    both = copy.copy(ours)
    both.plugins = [*ours.plugins, Plugin("theirs", "theirs", "1", "", offers=offers, studies=[file])]
    return both


def origin(known, method, study, tmp_path):
    of_name = studies.load(known, tmp_path, study) if study else None
    pair = find_pair(known, method, TASK)
    pair = with_study(known, pair, of_name, "quick", {}) if of_name else pair
    return resolve(known, pair, {}, "quick").origins["schedule.step_size"]


def test_a_plugins_study_has_no_say_on_the_samplers_of_others(known, tmp_path):
    shipped = origin(registry(), "sgld", "tuned", tmp_path)
    assert origin(known, "sgld", "tuned", tmp_path) == shipped
    assert shipped.provenance == "tuned"
    assert shipped.value != 9.0
    assert (
        not studies.load(known, tmp_path, "tuned").owners.keys()
        & studies.load(registry(), tmp_path, "tuned").records.keys()
    )


@pytest.mark.parametrize(("method", "h"), [("mine", 0.3), ("my-method", 0.4)])
def test_settings_that_a_plugin_brings_for_its_own_are_the_authors(known, tmp_path, method, h):
    chosen = origin(known, method, "tuned", tmp_path)
    assert (chosen.value, chosen.provenance, chosen.source) == (h, "plugin", "study tuned of theirs")
    assert chosen.tuning is None


def test_the_results_folder_is_stronger_than_a_plugin_and_its_trials_count_as_tuned(known, tmp_path):
    studied = studies.load(known, tmp_path, "tuned")
    (tmp_path / "tuning").mkdir()
    (tmp_path / "tuning" / "tuned.json").write_text(
        json.dumps({"format": 2, "tuned": [dict(one) for one in studied.records.values() if one["method"] == "mine"]})
    )
    assert origin(known, "mine", "tuned", tmp_path).provenance == "tuned"
    assert origin(known, "my-method", "tuned", tmp_path).provenance == "plugin"


def test_settings_of_a_method_from_outside_are_its_authors(known, tmp_path):
    assert origin(known, "my-method", "", tmp_path).provenance == "plugin"
    assert origin(registry(), "csgld", "", tmp_path).provenance != "plugin"


@pytest.mark.parametrize("whose", ["theirs", "sgmcmc-bench", ""])
def test_what_a_plugin_states_for_the_pairs_of_others_is_not_used(known, monkeypatch, whose):
    """Whatever distribution it names."""
    one = next(one for one in stated_settings(registry()) if one.distribution == "sgmcmc-bench")
    known.plugins[-1].offers.append(Offer(Info("more", "m:more"), "settings", "theirs", "theirs", "1"))
    wrong = replace(one, stated_by="x", distribution=whose)
    monkeypatch.setattr(stated, "_call_in_child", lambda *_: [wrong])
    assert [s.distribution for s in stated_settings(known) if s.stated_by == "x"] == ["theirs"]
    assert find_pair(known, one.method, f"{one.task}@{one.protocol}").stated.stated_by == one.stated_by
