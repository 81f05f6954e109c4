"""SamAdams: its step in the variables of its paper, the weights of its draws, and what gradient noise does to psi."""

import math

import numpy as np
import pytest
import torch
from kernels import Line, Noise, scalars, stepped, tensor

from harness.engine.linear import stationary_variance
from plugins.samplers.samadams import SamAdams

SHAPE = (4, 3)
QUARTIC = Line(lambda x: x.square().square() / 4, lambda x: x * x.square())


def test_steps_are_those_of_the_splitting_as_published():
    """Z B A O A B Z with a momentum p, steps dt = psi dtau, zeta' = s |g|^2 - alpha zeta and the friction gamma."""
    dtau, T, gamma, alpha, s, m, M, r = 0.2, 1.3, 0.7, 1.9, 0.3, 0.2, 5.0, 0.5
    rng = np.random.default_rng(2)
    theta, p = rng.standard_normal((2, *SHAPE))
    g = theta**3
    zeta = s / alpha * (g**2).sum(1, keepdims=True)
    sampler = SamAdams(
        friction=1 - math.exp(-gamma * dtau), rate=alpha * dtau, omega=alpha / s, least=m, most=M, power=r
    )  # fmt: skip
    x, state = theta, {"v": dtau * p, "g": g, "z": zeta}

    def followed(zeta, g):
        rho = math.exp(-alpha * dtau / 2)
        return rho * zeta + (1 - rho) / alpha * s * (g**2).sum(1, keepdims=True)

    for xi in rng.standard_normal((20, *SHAPE)):
        zeta = followed(zeta, g)
        dt = dtau * m * (zeta**r + M) / (zeta**r + m)
        p = p - dt / 2 * g
        theta = theta + dt / 2 * p
        p = np.exp(-gamma * dt) * p + np.sqrt((1 - np.exp(-2 * gamma * dt)) * T) * xi
        theta = theta + dt / 2 * p
        g = theta**3
        p = p - dt / 2 * g
        zeta = followed(zeta, g)
        x, state = stepped(sampler, x, state, QUARTIC.potential(), dtau**2, T, xi)
        np.testing.assert_allclose(x, theta, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(state["v"], dtau * p, rtol=1e-8, atol=1e-10)
        psi = m * (zeta**r + M) / (zeta**r + m)
        log_weight = sampler.log_weight({name: torch.from_numpy(leaf) for name, leaf in state.items()})
        np.testing.assert_allclose(log_weight, np.log(psi[:, 0]), rtol=1e-8)


@pytest.mark.parametrize("x", [1e-3, 0.5, 2.0])
def test_with_z_held_the_variance_is_exact_at_every_step_size(x):
    assert stationary_variance(SamAdams(), x, 1.5) == pytest.approx(1.5, rel=1e-6)


def averages(sampler, h, V, steps, chains):
    """E theta^2 on N(0, 1) under gradient noise of variance V, weighted and plain."""
    noise, (size, T) = Noise(1), scalars(h, 1.0)

    class Noisy:
        def grad(self, x):
            return x + math.sqrt(V) * noise.normal(x)

    theta = noise.normal(tensor(np.zeros((chains, 1))))
    state = sampler.init(theta, Noisy(), size, T, noise)
    squares, weights = [], []
    for k in range(steps):
        theta, state = sampler.step(theta, state, Noisy(), size, T, noise)
        if k >= steps // 5:
            squares.append(theta[:, 0].square())
            weights.append(sampler.log_weight(state).exp())
    squares, weights = torch.stack(squares), torch.stack(weights)
    return float((weights * squares).sum() / weights.sum()), float(squares.mean())


def test_weighted_averages_are_right_and_plain_ones_are_not():
    weighted, plain = averages(SamAdams(), 0.01, 0.0, 2500, 1000)
    assert weighted == pytest.approx(1.0, abs=0.02)
    assert plain > 1.3


@pytest.mark.slow
@pytest.mark.statistical
def test_gradient_noise_weakens_the_drift_unless_z_forgets_slowly():
    """The rest is the heat of the noise, 0.03 at this step size."""
    assert averages(SamAdams(), 1e-3, 10.0, 6000, 1000)[0] == pytest.approx(1.11, abs=0.03)
    assert averages(SamAdams(rate=0.02), 1e-3, 10.0, 6000, 1000)[0] == pytest.approx(1.03, abs=0.03)
