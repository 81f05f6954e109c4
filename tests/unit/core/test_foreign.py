"""What is said where a plugin asks the harness for something that it does not have: what it has instead."""

import sys

import pytest

from harness import PluginError
from harness.cli.app import run
from harness.contracts.registry import registry
from harness.runs.source import forget_code

PLUGIN = """
from dataclasses import dataclass

import numpy as np

from harness import Info, hook
from harness.tasks import Truth
from plugins.samplers.sgld import SGLD
from tasks.synthetic.mixture5 import Mixture5

calls = []

@dataclass(frozen=True, kw_only=True)
class Asking(SGLD):
    def step(self, theta, state, potential, h, T, noise):
        return theta - h * potential.hessian(theta), state


@dataclass(frozen=True, kw_only=True)
class Late(SGLD):
    def step(self, theta, state, potential, h, T, noise):
        calls.append(1)
        if len(calls) > 40:  # not while it is looked at, but when it runs
            raise ValueError("my own mistake")
        return theta - 0.0 * potential.grad(theta), state


@dataclass(frozen=True, kw_only=True)
class Old(Mixture5):
    def build(self, streams, device):
        Truth(mean=np.zeros(2), sd=np.ones(2))


@hook
def bench_samplers():
    return [Info("asking", "asking_plugin:Asking"), Info("late", "asking_plugin:Late")]


@hook
def bench_tasks():
    return [Info("old", "asking_plugin:Old")]
"""


@pytest.fixture
def command(tmp_path):
    plugin = tmp_path / "asking_plugin.py"
    plugin.write_text(PLUGIN)
    given = ["--budget", "steps=200", "--seeds", "0", "--set", "schedule.step_size=0.1"]
    yield ["--results", str(tmp_path / "results"), "--plugin", str(plugin), "run", *given]
    sys.modules.pop("asking_plugin", None)
    registry.cache_clear()
    forget_code()


def test_a_run_says_what_a_potential_has(command, capfd):
    assert run([*command, "--sampler", "asking", "--task", "mixture5"]) == PluginError.exit_code
    said = capfd.readouterr().err
    names = "full, gauss_newton, grad, layout, metric, scores, terms, value_and_grad"
    assert f"no attribute 'hessian'; it has {names}\n" in said


def test_a_run_says_what_to_write_for_an_old_signature(command, capfd):
    assert run([*command, "--sampler", "sgld", "--task", "old"]) == PluginError.exit_code
    said = capfd.readouterr().err
    assert "sgld on old cannot begin: TypeError: " in said
    how = "'sd'; write Truth(mean, covariance, z3, z4, mean_mcse, sd_mcse, how, quantiles, checksum) or Truth.normal("
    assert how in said
    assert "Traceback" not in said


def test_debug_shows_the_line_of_the_author_in_a_worker(command, capfd):
    """Its step is the identity, whose stability limit is infinite: the facts about it are JSON all the same."""
    asked = [*command, "--sampler", "late", "--task", "mixture5"]
    assert run(asked) == 1
    said = capfd.readouterr().err
    assert "ValueError: my own mistake" in said
    assert "Traceback" not in said
    assert run([*asked, "--retry", "--debug"]) == 1
    said = capfd.readouterr().err
    assert said.count("Traceback (most recent call last)") == 1
    line = PLUGIN[: PLUGIN.index("raise ValueError")].count("\n") + 1
    assert f'asking_plugin.py", line {line}, in step' in said
