"""The optimisers, step for step those of torch on the same gradients; the snapshot ensemble keeps one model a cycle."""

import numpy as np
import pytest
import torch

from harness.engine.linear import Probe, derive
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import path_of, streams, trajectory
from plugins.samplers.adam import Adam
from plugins.samplers.sgd import SGD
from plugins.samplers.sgdm import SGDM
from plugins.schedules.snapshot import Snapshot

TASK = GaussianTask(variance=0.5)
CHAINS, STEPS, H = 3, 40, 0.1


def by_torch(make, steps):
    """The path of a torch optimiser on the gradients that the loop's problem gives, one rate a step."""
    problem = TASK.build(streams(CHAINS), "cpu")
    theta = problem.initial().requires_grad_(True)
    slopes = problem.draw_batches(STEPS)["slope"]
    optimiser = make([theta])
    path = []
    for k, h in enumerate(steps):
        optimiser.param_groups[0]["lr"] = h
        theta.grad = problem.gradient(theta.detach(), {"slope": slopes[k]})
        optimiser.step()
        path.append(theta.detach().clone())
    return torch.stack(path)


def constant():
    return [H] * STEPS


def falling():
    return [H / (1 + 0.2 * k) for k in range(STEPS)]


def ours(sampler, steps, T=1.0):
    return path_of(sampler, TASK, trajectory(steps, T), CHAINS)


@pytest.mark.parametrize("steps", [constant(), falling()], ids=["constant", "falling"])
def test_sgd_is_torch_sgd(steps):
    torch.testing.assert_close(ours(SGD(), steps), by_torch(torch.optim.SGD, steps), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("steps", [constant(), falling()], ids=["constant", "falling"])
@pytest.mark.parametrize("lam", [1e-8, 0.3])
def test_adam_is_torch_adam(steps, lam):
    expected = by_torch(lambda p: torch.optim.Adam(p, lr=1.0, betas=(0.9, 0.999), eps=lam), steps)
    torch.testing.assert_close(ours(Adam(lam=lam), steps), expected, rtol=1e-10, atol=1e-12)


def test_sgdm_is_torch_sgd_with_momentum_at_a_constant_rate_and_only_there():
    def heavy(parameters):
        return torch.optim.SGD(parameters, lr=1.0, momentum=0.9)

    torch.testing.assert_close(ours(SGDM(), constant()), by_torch(heavy, constant()), rtol=1e-12, atol=1e-13)
    apart = (ours(SGDM(), falling()) - by_torch(heavy, falling())).abs().max()
    assert apart > 0.01


@pytest.mark.parametrize("sampler", [SGD(), SGDM(), Adam()], ids=lambda s: type(s).__name__)
def test_optimisers_draw_no_noise_and_know_no_temperature(sampler):
    assert Probe(sampler, 0.1, 1.0, (1.0, 1.0)).slots == []
    assert torch.equal(ours(sampler, falling(), T=3.0), ours(sampler, falling(), T=0.5))


@pytest.mark.parametrize("x", [0.1, 0.5, 1.5])
def test_the_noise_of_the_gradient_alone_gives_sgd_its_variance(x):
    V = 0.7
    P = derive(SGD(), x, 1.0).stationary(V)
    assert P[0, 0] == pytest.approx(x * x * V / (x * (2 - x)), rel=1e-10)


@pytest.mark.parametrize("rounding", ["up", "down", "none"])
def test_a_snapshot_is_kept_at_the_end_of_each_cycle_where_the_step_is_least(rounding):
    trajectory = Snapshot(step_size=0.5, cycles=4, rounding=rounding).trajectory(1003, 1)
    kept = np.flatnonzero(trajectory.keep)
    assert trajectory.cycle[kept].tolist() == [0, 1, 2, 3]  # "down" leaves a few steps over, which are no cycle
    assert (trajectory.step_size[kept] < 1e-4).all()
    assert (trajectory.step_size[kept] == [trajectory.step_size[trajectory.cycle == c].min() for c in range(4)]).all()
    assert np.array_equal(trajectory.keep, trajectory.evaluate)
