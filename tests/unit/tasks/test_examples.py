"""The tasks of docs/examples: they run, they keep the laws, and they are as short as docs/tasks.md says."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from harness import Sampler, Streams, Trajectory
from harness.engine.loop import Loop
from harness.system.errors import PluginError, UsageError
from plugins.laws.suite import check_task
from plugins.samplers.sgld import SGLD

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
LINES = {"uci_classifier": 40, "mlp_csv": 40}


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def csv(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 2))
    path = tmp_path / "rings.csv"
    np.savetxt(path, np.column_stack([x, (x**2).sum(axis=1) > 1.4]), delimiter=",")
    return example("mlp_csv").MlpCsv(file=str(path), width=8)


def path_of(steps, h, keep_every=10):
    everywhere = np.ones(steps, dtype=bool)
    return Trajectory(
        step_size=np.full(steps, h),
        temperature=np.ones(steps),
        keep=np.arange(steps) % keep_every == 0,
        evaluate=everywhere,
        cycle=np.zeros(steps, dtype=np.int64),
        burn_in=~everywhere,
    )


def run(task, sampler, steps, h):
    loop = Loop(task, sampler, path_of(steps, h), [Streams(0, c) for c in range(2)], 2)
    while not loop.finished:
        loop.advance_block()
    return loop.runs[0]


@pytest.mark.parametrize("name", LINES)
def test_an_example_is_short(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= LINES[name]


@pytest.mark.data
def test_a_classifier_of_uci_learns_and_keeps_the_laws():
    task = example("uci_classifier").HeartDisease()
    metrics = run(task, SGLD(), 1000, 1e-3).observer.outcome().metrics
    assert metrics["test_error"] < 30
    assert 0.2 < metrics["nll"] < 0.65
    assert all(result.outcome != "failed" for result in check_task(task)), check_task(task)


def test_a_network_on_a_csv_file_learns_and_its_observer_goes_on_from_a_checkpoint(csv):
    found = run(csv, SGLD(), 1500, 2e-3)
    outcome = found.observer.outcome()
    assert outcome.metrics["test_error"] < 25
    fresh = csv.observer(csv.build([Streams(0, 0)] * 2, "cpu"), slice(0, 2), path_of(1500, 2e-3), found_cost())
    fresh.load(found.observer.state())
    assert fresh.outcome().metrics == outcome.metrics
    with pytest.raises(UsageError, match=r"task\.file"):
        type(csv)(file="nowhere.csv")


def found_cost():
    from harness import Cost

    return Cost(0.0, 1.0)


@pytest.mark.parametrize("law", ["gradient is that of the energy", "chains do not interact", "prior counted once"])
def test_a_network_on_a_csv_file_keeps_the_laws(csv, law):
    (result,) = check_task(csv, [law])
    assert result.outcome == "passed", result.message


@dataclass(frozen=True, kw_only=True)
class ByFanIn(Sampler):
    """SGD whose step is divided by the inputs of each weight: what a layout is for."""

    needs = frozenset({"layout"})
    zero_temperature = None

    def step(self, theta, state, potential, h, T, noise):
        scale = potential.layout.fill(lambda block: 1 / block.fan_in, theta)
        return theta - h * scale * potential.grad(theta), state


class Undeclared(ByFanIn):
    needs = frozenset()


def test_a_sampler_that_needs_the_layout_moves_each_block_by_its_fan_in(csv):
    problem = csv.build([Streams(0, c) for c in range(2)], "cpu")
    start, batch = problem.initial().float(), {n: leaf[0] for n, leaf in problem.draw_batches(1).items()}
    blocks = problem.layout.split(start)
    assert {name: tuple(leaf.shape[1:]) for name, leaf in blocks.items()} == {
        "weight1": (8, 2), "bias1": (8,), "weight2": (2, 8), "bias2": (2,)
    }  # fmt: skip
    assert torch.equal(torch.cat([leaf.flatten(1) for leaf in blocks.values()], dim=1), start)
    loop = Loop(csv, ByFanIn(), path_of(1, 0.01), [Streams(0, c) for c in range(2)], 2)
    loop.advance_block()
    moved = problem.layout.split((start - loop.theta) / 0.01)
    slopes = problem.layout.split(problem.gradient(start, batch))
    for name, fan_in in {"weight1": 2, "bias1": 1, "weight2": 8, "bias2": 1}.items():
        torch.testing.assert_close(moved[name], slopes[name] / fan_in, rtol=1e-2, atol=1e-2)


def test_a_layout_that_is_not_declared_as_a_need_is_refused(csv):
    with pytest.raises(PluginError, match="'layout' to `needs`"):
        Loop(csv, Undeclared(), path_of(1, 0.01), [Streams(0, 0)], 1)
