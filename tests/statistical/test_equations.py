"""One step by hand: gradient and noise fixed, the samplers are their published equations, in NumPy and float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.engine.linear import ScriptedNoise
from plugins.samplers.msgld import MSGLD
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD

SHAPE = (4, 3)


class FixedGradient:
    """A potential whose gradient is the same everywhere, and which notes where it is asked."""

    terms = 1

    def __init__(self, g):
        self.g = torch.from_numpy(g)
        self.asked = []

    def grad(self, x):
        self.asked.append(x)
        return self.g.clone()


@pytest.fixture(name="T", params=[0.5, 1.0, 3.0])
def temperature(request):
    return request.param


@pytest.fixture(params=[0.003, 0.4])
def h(request):
    return request.param


@pytest.fixture
def numbers():
    theta, memory, g, xi = np.random.default_rng(5).standard_normal((4, *SHAPE))
    return theta, memory, g, xi


def scalars(*values):
    return [torch.tensor(value, dtype=torch.float64) for value in values]


def stepped(sampler, theta, state, g, xi, h, T):
    potential = FixedGradient(g)
    state = {name: torch.from_numpy(leaf) for name, leaf in state.items()}
    noise = ScriptedNoise([torch.from_numpy(xi)])
    start = torch.from_numpy(theta)
    new, left = sampler.step(start, state, potential, *scalars(h, T), noise)
    assert [torch.equal(x, start) for x in potential.asked] == [True]
    return new.numpy(), {name: leaf.numpy() for name, leaf in left.items()}


def test_sgld(numbers, h, T):
    theta, _, g, xi = numbers
    found, state = stepped(SGLD(), theta, {}, g, xi, h, T)
    np.testing.assert_allclose(found, theta - h * g + np.sqrt(2 * h * T) * xi, rtol=1e-13)
    assert state == {}


def test_sgld_with_known_gradient_variance(numbers, h, T):
    theta, _, g, xi = numbers
    V = 1.7
    found, _ = stepped(SGLD(gradient_variance=V), theta, {}, g, xi, h, T)
    np.testing.assert_allclose(found, theta - h * g + np.sqrt(2 * h * T - h**2 * V) * xi, rtol=1e-13)


def test_sghmc(numbers, h, T):
    theta, v, g, xi = numbers
    alpha = 0.3
    found, state = stepped(SGHMC(friction=alpha), theta, {"v": v}, g, xi, h, T)
    new = (1 - alpha) * v - h * g + np.sqrt(2 * alpha * h * T) * xi
    np.testing.assert_allclose(state["v"], new, rtol=1e-13)
    np.testing.assert_allclose(found, theta + new, rtol=1e-13)


def test_msgld_uses_the_momentum_of_past_gradients_alone(numbers, h, T):
    theta, m, g, xi = numbers
    a, beta1 = 5.0, 0.9
    found, state = stepped(MSGLD(a=a, beta1=beta1), theta, {"m": m}, g, xi, h, T)
    np.testing.assert_allclose(found, theta - h * (g + a * m) + np.sqrt(2 * h * T) * xi, rtol=1e-13)
    np.testing.assert_allclose(state["m"], beta1 * m + (1 - beta1) * g, rtol=1e-13)


def test_sghmc_starts_with_the_velocity_of_equilibrium(numbers, h, T):
    theta, _, _, xi = numbers
    state = SGHMC().init(
        torch.from_numpy(theta), None, *scalars(h, T),
        ScriptedNoise([torch.from_numpy(xi)]),
    )  # fmt: skip
    np.testing.assert_allclose(state["v"].numpy(), np.sqrt(h * T) * xi, rtol=1e-13)


def test_msgld_starts_without_momentum(numbers):
    state = MSGLD().init(torch.from_numpy(numbers[0]), None, None, None, None)
    assert torch.equal(state["m"], torch.zeros(SHAPE, dtype=torch.float64))
