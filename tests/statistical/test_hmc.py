"""HMC: the leapfrog by hand, reversibility, volume, the order of its energy error, and its Metropolis decision."""

import numpy as np
import pytest
import torch

from harness.engine.linear import ScriptedNoise
from harness.engine.stepping.potential import BoundPotential
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import draws, finish, loop, trajectory
from plugins.samplers.hmc import HMC

CHAINS, D = 5, 3


class Quartic:
    """U = sum theta^4 / 4 + theta_0 theta_1: not quadratic, with coordinates that pull at each other."""

    def energy_and_gradient(self, theta, batch):
        gradient = theta**3
        gradient[:, 0] += theta[:, 1]
        gradient[:, 1] += theta[:, 0]
        return (theta**4 / 4).sum(1) + theta[:, 0] * theta[:, 1], gradient

    def gradient(self, theta, batch):
        return self.energy_and_gradient(theta, batch)[1]


def by_hand(theta, r, epsilon, leapfrog):
    """Neal's leapfrog, half steps and all, and H before and after."""
    U, g = Quartic().energy_and_gradient(theta, None)
    before = U + (r**2).sum(1) / 2
    for _ in range(leapfrog):
        r = r - epsilon / 2 * g
        theta = theta + epsilon * r
        U, g = Quartic().energy_and_gradient(theta, None)
        r = r - epsilon / 2 * g
    return theta, r, before, U + (r**2).sum(1) / 2


def proposed(sampler, theta, r, h, T=1.0, u=0.0, jitter=0.5):
    """One step with momentum r and acceptance threshold u."""
    potential = BoundPotential(Quartic(), 1)
    h, T = (torch.tensor(value, dtype=torch.float64) for value in (h, T))
    uniforms = [torch.full((CHAINS, 1), value, dtype=torch.float64) for value in (jitter, u)]
    script = [r / T.sqrt(), *uniforms]
    state = sampler.init(theta, potential, h, T, None)
    return sampler.step(theta, state, potential, h, T, ScriptedNoise(script))


@pytest.fixture
def start():
    generator = torch.Generator().manual_seed(11)
    return torch.randn(2, CHAINS, D, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("leapfrog", [1, 2, 7])
@pytest.mark.parametrize("jitter", [0.0, 0.25, 0.9])
def test_a_proposal_is_the_leapfrog(start, leapfrog, jitter):
    theta, r = start
    h = 0.01
    epsilon = h**0.5 * (1 + 0.2 * (2 * jitter - 1))
    position, state = proposed(HMC(leapfrog=leapfrog, jitter=0.2), theta, r, h, jitter=jitter)
    expected, _, before, after = by_hand(theta, r, epsilon, leapfrog)
    torch.testing.assert_close(position, expected, rtol=1e-12, atol=1e-13)
    U, g = Quartic().energy_and_gradient(expected, None)
    torch.testing.assert_close(state["energy"], U, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(state["gradient"], g, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(state["accept"][:, 0], (before - after).clamp(max=0).exp(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("T", [0.5, 1.0, 3.0])
def test_a_proposal_is_taken_where_u_is_below_exp_minus_dh_over_t(start, T):
    theta, r = start
    sampler = HMC(leapfrog=3, jitter=0.0)
    moved, state = proposed(sampler, theta, r, 0.25, T)
    _, _, before, after = by_hand(theta, r, 0.5, 3)
    ratio = ((before - after) / T).exp().clamp(max=1)
    torch.testing.assert_close(state["accept"][:, 0], ratio, rtol=1e-9, atol=1e-300)
    assert (ratio < 0.999).sum() > 0
    for c in range(CHAINS):
        p = ratio[c].item()
        kept = proposed(sampler, theta, r, 0.25, T, u=min(p * 1.001, 1.0))[0][c]
        taken = proposed(sampler, theta, r, 0.25, T, u=p * 0.999)[0][c]
        assert torch.equal(taken, moved[c])
        assert p == 1 or torch.equal(kept, theta[c])


def test_a_rejected_chain_keeps_energy_and_gradient(start):
    theta, r = start
    position, state = proposed(HMC(leapfrog=3), theta, r, 100.0, u=0.999)
    U, g = Quartic().energy_and_gradient(theta, None)
    assert torch.equal(position, theta)
    assert torch.equal(state["energy"], U)
    assert torch.equal(state["gradient"], g)
    assert torch.all(state["accept"] < 1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize("wanted", [0.65, 0.8, 0.95])
def test_burn_in_finds_the_step_size_that_is_wanted(wanted):
    """From a step ten times too small; 64 chains of 300 kept steps, so the mean acceptance is within about 0.01."""
    burn_in, kept = 1500, 300
    task = GaussianTask(curvatures=(1.0, 2.0, 4.0, 8.0))
    path = trajectory(np.full(burn_in + kept, 1e-3), 1.0, burn_in=burn_in)
    running = loop(HMC(leapfrog=5, acceptance=wanted), task, path, 64)
    while running.position < burn_in:
        running.advance_block()
    frozen = running.state["log_scale"].clone()
    finish(running)
    assert torch.equal(running.state["log_scale"], frozen)
    assert torch.all(running.state["adapted"] == burn_in)
    positions = draws(running)
    moved = (positions[1:] != positions[:-1]).all(dim=2).double().mean().item()
    assert moved == pytest.approx(wanted, abs=0.04)
