"""resgld: its step by hand, two exact chains without swaps, the bimodal truth with them, and noisy energies."""

import numpy as np
import pytest
import torch
from kernels import Line, stepped
from scipy.stats import norm

from harness.engine.linear import stationary_variance
from harness.engine.stepping.potential import BoundPotential, CountingPotential
from plugins.samplers.resgld import RESGLD
from plugins.samplers.sgld import SGLD

C, D = 6, 3
SHARES = (0.7, 0.3)
SD = 0.5


def heights(x):
    return [
        -((x - centre) ** 2) / (2 * SD**2) + np.log(share) for centre, share in zip((-1.2, 1.2), SHARES, strict=True)
    ]


BIMODAL = Line(
    lambda x: -torch.logaddexp(*heights(x)),
    lambda x: (x + 1.2 - 2.4 * (heights(x)[1] - heights(x)[0]).sigmoid()) / SD**2,
)
"""Two Gaussians of sd 1/2 at -1.2 and 1.2, of weights 0.7 and 0.3."""

SLOPED = Line(lambda x: x, lambda x: 0 * x)


class Cube:
    """U = sum theta^4 / 4 + theta_1."""

    def energy_and_gradient(self, theta, batch):
        g = theta**3
        g[:, 0] += 1
        return (theta**4 / 4).sum(1) + theta[:, 0], g


def energy(theta):
    return (theta**4 / 4).sum(1, keepdims=True) + theta[:, :1]


def slope(theta):
    return theta**3 + np.array([1.0, 0.0, 0.0])


@pytest.mark.parametrize("T", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("h", [0.003, 0.4])
def test_a_step_by_hand(h, T):
    rng = np.random.default_rng(9)
    theta, hot, xi, zeta = rng.standard_normal((4, C, D))
    u = rng.random((C, 1))
    rate, ratio, s2 = 0.9, 2.5, 0.3
    sampler = RESGLD(ratio=ratio, rate=rate, energy_variance=s2)
    position, state = stepped(sampler, theta, {"hot": hot}, BoundPotential(Cube(), 1), h, T, u, xi, zeta)
    d = 1 / T - 1 / (ratio * T)
    swap = u < rate * np.minimum(1, np.exp(d * (energy(theta) - energy(hot) - d * s2)))
    assert 0 < swap.sum() < C
    cold, warm = np.where(swap, hot, theta), np.where(swap, theta, hot)
    np.testing.assert_allclose(position, cold - h * slope(cold) + np.sqrt(2 * h * T) * xi, rtol=1e-12)
    np.testing.assert_allclose(state["hot"], warm - h * slope(warm) + np.sqrt(2 * h * ratio * T) * zeta, rtol=1e-12)


def test_without_swaps_they_are_two_chains_of_sgld():
    rng = np.random.default_rng(10)
    theta, hot, xi, zeta = rng.standard_normal((4, C, 1))
    potential = BIMODAL.potential()
    position, state = stepped(RESGLD(rate=0.0), theta, {"hot": hot}, potential, 0.02, 1.3, np.zeros((C, 1)), xi, zeta)
    np.testing.assert_array_equal(position, stepped(SGLD(), theta, {}, potential, 0.02, 1.3, xi)[0])
    expected = stepped(SGLD(), hot, {}, potential, 0.02, 3 * 1.3, zeta)[0]
    np.testing.assert_allclose(state["hot"], expected, rtol=1e-14)
    assert stationary_variance(RESGLD(), 0.1, 1.0) is None  # it draws uniforms: the two laws are those of sgld


def swap_chances(sampler, problem, theta, hot, T):
    """The chance of a swap from each theta and hot (n, 1), by bisection of the uniform at which `step` does it."""
    low, high, still = np.zeros_like(theta), np.ones_like(theta), np.zeros_like(theta)
    for _ in range(30):
        u = (low + high) / 2
        position, _ = stepped(sampler, theta, {"hot": hot}, problem.potential(), 1e-12, T, u, still, still)
        swapped = np.abs(position - hot) < np.abs(position - theta)
        low, high = np.where(swapped, u, low), np.where(swapped, high, u)
    return low[:, 0]


@pytest.mark.parametrize("s2", [0.1, 2.0])
@pytest.mark.parametrize("T", [0.5, 1.0])
def test_the_correction_restores_detailed_balance_under_normal_noise(s2, T):
    """With U - U' of variance 2 s2 about a gap D, the mean chance a(D) has a(D) / a(-D) = e^(d D)."""
    noise = np.linspace(-9, 9, 4001)
    weights = norm.pdf(noise) / norm.pdf(noise).sum()
    d = (1 - 1 / 3) / T

    def chance(gap, correction):
        gaps = (gap + np.sqrt(2 * s2) * noise)[:, None]
        sampler = RESGLD(rate=1.0, energy_variance=correction)
        return weights @ swap_chances(sampler, SLOPED, gaps, 0 * gaps, T)

    for gap in (0.3, 1.5):
        right, wrong = (np.log(chance(gap, s) / chance(-gap, s)) / (d * gap) for s in (s2, 0.0))
        assert right == pytest.approx(1.0, abs=1e-3)
        assert wrong < 0.99


def test_what_a_step_asks_for():
    potential = CountingPotential(Cube(), 1)
    zero = np.zeros((C, D))
    stepped(RESGLD(), zero, {"hot": zero}, potential, 0.1, 1.0, np.zeros((C, 1)), zero, zero)
    assert potential.take_counts() == (2, 0)
