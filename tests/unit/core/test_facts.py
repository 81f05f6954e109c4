"""What is kept of what plugins say of themselves: under which code, and of which settings."""

import shutil
from pathlib import Path

import harness
from harness.contracts.registry import registry
from harness.runs import plugin_metadata


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
