"""A chain's path is the same, bit for bit, whatever other chains advance beside it."""

import pytest
import torch
from support import SAMPLERS

from harness.contracts.randomness import Streams
from harness.engine.loop import Loop
from harness.engine.stepping.execution_mode import obstacle
from plugins.schedules.constant import Constant
from tasks.regression.blr import Australian, German, Heart
from tasks.synthetic.mixture5 import Mixture5
from tasks.synthetic.mixture25 import Mixture25

pytestmark = pytest.mark.usefixtures("one_thread")

MIXTURES = {"mixture5": Mixture5(), "mixture25": Mixture25(), "mixture25-quiet": Mixture25(noise=0.0)}
LOGISTIC = {
    "heart": Heart(), "heart-20": Heart(batch=20), "australian": Australian(), "australian-64": Australian(batch=64),
    "german": German(), "german-33": German(batch=33),
}  # fmt: skip
STEPS = 200
SIZES = (1, 2, 5, 40)


def path(task, sampler, chains, h, steps, mode):
    """Positions and states of all chains at the end, and the kept draws (n, C, D)."""
    trajectory = Constant(step_size=h).trajectory(steps, 1).with_burn_in(steps // 4)
    loop = Loop(task, sampler, trajectory, [Streams(0, chain) for chain in range(chains)], chains, mode=mode)
    seen = []
    loop.runs[0].observer.observe = lambda draws, _weights, _steps: seen.append(draws)
    while not loop.finished:
        loop.advance_block()
    draws = torch.cat(seen) if seen else torch.empty(0, chains, task.dim())
    return loop.theta, loop.state, draws


def assert_same_bits(task, sampler, h, sizes, steps=STEPS, mode="plain"):
    theta, state, draws = path(task, sampler, sizes[-1], h, steps, mode)
    for chains in sizes[:-1]:
        few_theta, few_state, few_draws = path(task, sampler, chains, h, steps, mode)
        assert torch.equal(bits(few_theta), bits(theta[:chains])), f"{chains} chains end elsewhere than of {sizes[-1]}"
        for name, leaf in few_state.items():
            assert torch.equal(bits(leaf), bits(state[name][:chains])), f"state {name} at {chains} chains"
        shared = min(len(draws), len(few_draws))  # a run's draws end with the first chain that it loses
        assert torch.equal(bits(few_draws[:shared]), bits(draws[:shared, :chains]))


def bits(x):
    return x.contiguous().view(torch.int64)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.parametrize("x", [0.3, 2.4], ids=["stable", "unstable"])
def test_mixture_chains_do_not_feel_each_other(name, sampler, x):
    task = MIXTURES[name]
    assert_same_bits(task, SAMPLERS[sampler], x / task.curvature(), SIZES)


@pytest.mark.data
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", ["heart", "heart-20"])
@pytest.mark.parametrize("x", [0.3, 2.4], ids=["stable", "unstable"])
def test_logistic_chains_do_not_feel_each_other(name, sampler, x):
    task = LOGISTIC[name]
    assert_same_bits(task, SAMPLERS[sampler], x / task.curvature(), SIZES)


@pytest.mark.data
@pytest.mark.parametrize("name", LOGISTIC)
def test_no_size_of_data_or_batch_lets_logistic_chains_feel_each_other(name):
    task = LOGISTIC[name]
    assert_same_bits(task, SAMPLERS["sgld"], 2.4 / task.curvature(), SIZES)


@pytest.mark.skipif(obstacle() is not None, reason=f"compiled: {obstacle()}")
@pytest.mark.parametrize(
    ("name", "sampler"), [("mixture25", "sgld"), pytest.param("mixture5", "hmc", marks=pytest.mark.slow)]
)
def test_compiled_mixture_chains_do_not_feel_each_other(name, sampler):
    task = MIXTURES[name]
    assert_same_bits(task, SAMPLERS[sampler], 2.4 / task.curvature(), (1, 3, 11), mode="compiled")


@pytest.mark.data
@pytest.mark.skipif(obstacle() is not None, reason=f"compiled: {obstacle()}")
@pytest.mark.parametrize(("name", "sampler"), [("heart", "sgld"), ("heart-20", "sghmc")])
def test_compiled_logistic_chains_do_not_feel_each_other(name, sampler):
    task = LOGISTIC[name]
    assert_same_bits(task, SAMPLERS[sampler], 2.4 / task.curvature(), (1, 3, 11), mode="compiled")
