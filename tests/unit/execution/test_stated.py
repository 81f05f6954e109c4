"""Settings that a plugin states by its hook."""

import pytest

from harness.contracts.registry import Registry
from harness.runs.settings import find_pair, resolve
from harness.runs.stated import stated_settings
from harness.system.errors import PluginError

PLUGIN = """
import os
from harness import Info, PluginError, hook
from harness.tasks import StatedSettings, StatedValue

@hook
def bench_settings():
    return [Info("bench-of-mine", "{name}:stated")]

@hook
def bench_samplers():
    return [Info("of-{sampler}", "plugins.samplers.sgld:SGLD")]

def stated(registry, distributions):
    {body}
"""
WHOLE = """values = {"schedule": StatedValue("constant", "code")}
    values["schedule.step_size"] = StatedValue(0.03, "code", "table 2")
    pairs = ("of-stating", "sgld")
    return [StatedSettings(method, "mixture5", "adaptive-drift", "mine", values) for method in pairs]"""


def known(tmp_path, name, body):
    path = tmp_path / f"{name}.py"
    text = PLUGIN.replace("{name}", name).replace("{body}", body).replace("{sampler}", name.replace("_", "-"))
    path.write_text(text)
    return Registry([str(path)])


def test_a_strangers_settings_are_a_source_like_a_papers_for_its_own_samplers(tmp_path):
    registry = known(tmp_path, "stating", WHOLE)
    assert [one.distribution for one in stated_settings(registry) if one.stated_by == "mine"] == ["stating"] * 2

    def origin(method):
        return resolve(registry, find_pair(registry, method, "mixture5"), {}).origins["schedule.step_size"]

    assert (origin("of-stating").value, origin("of-stating").provenance) == (0.03, "code")
    assert origin("of-stating").source == "mine: table 2"
    assert origin("sgld").value != 0.03


@pytest.mark.parametrize(
    ("name", "body", "what"),
    [
        ("raising", 'raise PluginError("lost")', "lost"),
        ("leaving", "os._exit(7)", "exit code 7"),
        ("answering", "return 5", "TypeError"),
    ],
)
def test_an_error_stops_the_runs_of_its_own_plugin_alone(tmp_path, name, body, what):
    registry = known(tmp_path, name, body)
    assert {one.distribution for one in stated_settings(registry)} == {"sgmcmc-bench"}
    find_pair(registry, "sgld", "mixture5")
    with pytest.raises(PluginError, match=what):
        find_pair(registry, f"of-{name}", "mixture5")
