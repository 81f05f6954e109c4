"""What is kept of what plugins say of themselves: under which code, and of which settings."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import harness
from harness.contracts.registry import registry
from harness.runs import plugin_metadata
from harness.system.errors import BenchError
from plugins.samplers.sgld import SGLD


def test_other_code_of_the_harness_asks_again(tmp_path, monkeypatch):
    """An installation that was updated, or edited, does not read what an earlier one noted of the same plugins."""
    copy = tmp_path / "harness"
    shutil.copytree(Path(harness.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    digests = [plugin_metadata._code()]
    monkeypatch.setattr(plugin_metadata, "__file__", str(copy / "runs" / "plugin_metadata.py"))
    assert plugin_metadata._code.__wrapped__() == digests[0]
    for changed in ("runs/plugin_metadata.py", "contracts/schedule.py", "engine/linear.py"):
        with (copy / changed).open("a") as edited:
            edited.write("# another version\n")
        digests.append(plugin_metadata._code.__wrapped__())
    assert len(set(digests)) == 4


def test_a_setting_that_came_later_is_left_out_of_keys_at_its_default():
    """So results of the time before it keep their keys."""
    offer = registry().find("tasks", "airfoil")
    assert plugin_metadata.resolve(offer, {}) == {"batch": 256, "data_seed": 1}
    assert plugin_metadata.resolve(offer, {"hidden": "16-16-16", "variant": "smile"}) == {"batch": 256, "data_seed": 1}
    assert plugin_metadata.resolve(offer, {"hidden": "4"}) == {"batch": 256, "data_seed": 1, "hidden": "4"}
    assert plugin_metadata.instance(offer.target, plugin_metadata.resolve(offer, {})).hidden == "16-16-16"


class Stating(SGLD):
    """States for every task what is put here."""

    given: object = None

    @classmethod
    def settings(cls, task):
        return cls.given


def authors(monkeypatch, given):
    monkeypatch.setattr(Stating, "given", given)
    monkeypatch.setattr(plugin_metadata, "_class", lambda _: Stating)
    return json.loads(plugin_metadata.work_out("stating", "settings", ("stating:Stating", {"task": "mixture5"})))


@pytest.mark.parametrize(
    "value",
    [torch.tensor(0.5), torch.ones(3), [0.1, 0.2], (0.1,), {"x": 1}, {1}, b"text", 1j, np.float32(0.5), np.int64(3),
     float("nan"), float("inf"), -np.inf, np.float64("nan"), 10**5000],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_authors_settings_are_plain(monkeypatch, value):
    """A tensor or a list could hold a table of draws; anything else is named before the plan."""
    with pytest.raises(BenchError, match=r"mixture5|4300 digits"):
        authors(monkeypatch, {"sampler.a": value})


@pytest.mark.parametrize("given", [None, [("sampler.a", 1)], {1: 0.5}, {"sampler": {"a": 1}}, "text"])
def test_authors_settings_are_by_dotted_name(monkeypatch, given):
    with pytest.raises(BenchError, match=r"Stating\.settings\('mixture5'\)"):
        authors(monkeypatch, given)


def test_numbers_choices_and_none_are_authors_settings(monkeypatch):
    given = {"sampler.a": 0.5, "sampler.n": 3, "sampler.on": True, "schedule": "constant", "run.warm_start": None}
    assert authors(monkeypatch, given) == given
    assert authors(monkeypatch, {"sampler.a": np.float64(0.5)}) == {"sampler.a": 0.5}
