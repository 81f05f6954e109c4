"""sgnht and santa: a step by hand, the kinetic energy that their thermostats hold, the friction that they find."""

import kernels
import numpy as np
import pytest
import torch
from kernels import Fixed, Noise, scalars

from harness.engine.stepping.potential import BoundPotential
from plugins.checking.gaussian import GaussianProblem
from plugins.samplers.santa import Santa
from plugins.samplers.sgnht import SGNHT

D = 20


def stepped(sampler, theta, state, g, xi, h, T):
    return kernels.stepped(sampler, theta, state, Fixed(g), h, T, xi)


@pytest.mark.parametrize("T", [0.5, 1.0, 3.0])
def test_sgnht_by_hand(T):
    theta, v, g, xi = np.random.default_rng(3).standard_normal((4, 5, 7))
    alpha, h = np.linspace(-0.1, 0.4, 5)[:, None], 0.02
    position, state = stepped(SGNHT(a=0.3), theta, {"v": v, "alpha": alpha}, g, xi, h, T)
    new = (1 - alpha) * v - h * g + np.sqrt(2 * 0.3 * h * T) * xi
    np.testing.assert_allclose(state["v"], new, rtol=1e-12)
    np.testing.assert_allclose(position, theta + new, rtol=1e-12)
    np.testing.assert_allclose(state["alpha"], alpha + (new**2).sum(1, keepdims=True) / 7 - h * T, rtol=1e-12)


@pytest.mark.parametrize("T", [0.0, 0.5, 3.0])
def test_santa_by_hand(T):
    theta, u, alpha, g, xi, V = np.random.default_rng(4).standard_normal((6, 5, 7))
    V, h, t = V**2, 0.02, np.full((5, 1), 8)
    xi = xi if T else np.zeros(())
    sampler = Santa(decay=0.9, lam=0.01, anneal=0.5, diffusion=2.0)
    position, state = stepped(sampler, theta, {"u": u, "alpha": alpha, "V": V, "t": t}, g, xi, h, T)
    A = 9**0.5
    V = 0.9 * V + 0.1 * g**2
    P = np.sqrt(0.01 + np.sqrt(V))

    def heated(alpha, u):
        return alpha + (u**2 / T - h / A) / 2 if T else alpha

    x = theta + u / (2 * P)
    alpha = heated(alpha, u)
    u = np.exp(-alpha / 2) * u - h * g / (2 * P) + np.sqrt(2 * 2.0 * h**1.5 * T / A) * xi
    u = np.exp(-alpha / 2) * u - h * g / (2 * P)
    alpha = heated(alpha, u)
    np.testing.assert_allclose(position, x + u / (2 * P), rtol=1e-11)
    for name, expected in {"u": u, "alpha": alpha, "V": V, "t": t + 1}.items():
        np.testing.assert_allclose(state[name], expected, rtol=1e-11)


def walked(sampler, h, T, *, steps, burn, variance=0.0, chains=64):
    """Time averages (chains,) of theta^2 / T, v^2 / (h T) and alpha on standard normals of D coordinates."""
    noise = Noise(8)
    problem = GaussianProblem(torch.ones(D, dtype=torch.float64))
    heat, step = scalars(T, h)
    theta = heat.sqrt() * noise.normal(torch.empty((chains, D), dtype=torch.float64))
    state = sampler.init(theta, BoundPotential(problem, 1), step, heat, noise)
    sums = np.zeros((3, chains))
    for k in range(steps):
        slope = variance**0.5 * noise.normal(theta)
        theta, state = sampler.step(theta, state, BoundPotential(problem, 1, {"slope": slope}), step, heat, noise)
        if k >= burn:
            v = state["v"] if "v" in state else state["u"]
            sums += [theta.square().mean(1) / T, v.square().mean(1) / (h * T), state["alpha"].mean(1)]
    return sums / (steps - burn)


def mean(each):
    return each.mean(), each.std(ddof=1) / np.sqrt(len(each))


@pytest.mark.slow
@pytest.mark.parametrize(("h", "T", "V"), [(0.1, 1.0, 0.0), (0.01, 1.0, 0.0), (0.02, 0.5, 0.0), (0.05, 2.0, 8.0)])
def test_the_thermostat_of_sgnht_holds_the_kinetic_energy_at_every_step_size(h, T, V):
    """alpha is bounded, so its increments average to 0: |v|^2 / D averages h T, gradient noise or none."""
    _, kinetic, _ = walked(SGNHT(a=0.1), h, T, steps=6000, burn=1000, variance=V)
    energy, error = mean(kinetic)
    assert error < 2e-3
    assert energy == pytest.approx(1, abs=4 * error + 2e-4)


def test_santa_cools_down_and_ends_at_the_mode():
    positions = walked(Santa(anneal=2.0, lam=1.0), 0.05, 1.0, steps=3000, burn=2900)[0]
    assert positions.max() < 1e-3
