"""psgld and asgld: their equations by hand, their law with V held still, and what V that follows theta makes of it."""

import kernels
import numpy as np
import pytest
import torch
from kernels import Fixed

from harness.engine.linear import derive, stability_limit
from harness.system.errors import UsageError
from plugins.samplers.asgld import ASGLD
from plugins.samplers.msgld import MSGLD
from plugins.samplers.psgld import PSGLD

SHAPE = (4, 3)
H, T = 0.03, 1.7


def stepped(sampler, theta, state, g, xi):
    return kernels.stepped(sampler, theta, state, Fixed(g), H, T, xi)


@pytest.fixture
def numbers():
    theta, before, g, g_before, xi, V = np.random.default_rng(7).standard_normal((6, *SHAPE))
    return theta, before, g, g_before, xi, V**2


def test_psgld_by_hand(numbers):
    theta, _, g, _, xi, V = numbers
    position, state = stepped(PSGLD(decay=0.9, lam=0.2), theta, {"V": V}, g, xi)
    new = 0.9 * V + 0.1 * g**2
    G = 1 / (0.2 + np.sqrt(new))
    np.testing.assert_allclose(state["V"], new, rtol=1e-13)
    np.testing.assert_allclose(position, theta - H * G * g + np.sqrt(2 * H * T * G) * xi, rtol=1e-12)


def test_psgld_with_gamma_by_hand(numbers):
    theta, before, g, g_before, xi, V = numbers
    state = {"V": V, "theta": before, "g": g_before}
    position, _ = stepped(PSGLD(decay=0.9, lam=0.2, gamma=True), theta, state, g, xi)
    new = 0.9 * V + 0.1 * g**2
    G = 1 / (0.2 + np.sqrt(new))
    gamma = -0.1 * g * (g - g_before) / (theta - before) * G**2 / np.sqrt(new)
    np.testing.assert_allclose(position, theta - H * (G * g - T * gamma) + np.sqrt(2 * H * T * G) * xi, rtol=1e-11)


def test_gamma_is_the_derivative_of_the_preconditioner():
    """Of G(V(g(theta))) by theta, on U = 3 theta^2 / 2, by central differences; a sign or a factor would show."""
    sampler, lam, width = PSGLD(decay=0.9, lam=0.2, gamma=True), 3.0, 1e-5
    theta, V = np.full((1, 1), 0.7), np.full((1, 1), 2.0)

    def size(x):
        return 1 / (0.2 + np.sqrt(0.9 * V + 0.1 * (lam * x) ** 2))

    slope = (size(theta + width) - size(theta - width)) / (2 * width)
    state = {"V": V, "theta": theta - 0.1, "g": lam * (theta - 0.1)}
    with_gamma, _ = stepped(sampler, theta, state, lam * theta, np.zeros((1, 1)))
    without, _ = stepped(PSGLD(decay=0.9, lam=0.2), theta, {"V": V}, lam * theta, np.zeros((1, 1)))
    np.testing.assert_allclose((with_gamma - without) / (H * T), slope, rtol=1e-7)


def test_asgld_by_hand_uses_the_moments_of_past_gradients_alone(numbers):
    theta, m, g, _, xi, V = numbers
    sampler = ASGLD(a=5.0, beta1=0.8, beta2=0.95, lam=0.01)
    position, state = stepped(sampler, theta, {"m": m, "V": V}, g, xi)
    drift = g + 5.0 * m / np.sqrt(V + 0.01)
    np.testing.assert_allclose(position, theta - H * drift + np.sqrt(2 * H * T) * xi, rtol=1e-12)
    np.testing.assert_allclose(state["m"], 0.8 * m + 0.2 * g, rtol=1e-13)
    np.testing.assert_allclose(state["V"], 0.95 * V + 0.05 * g**2, rtol=1e-13)


def test_asgld_starts_without_bias_though_its_moments_are_zero_over_zero():
    state = ASGLD().init(torch.ones(SHAPE, dtype=torch.float64), None, None, None, None)
    assert all(torch.equal(leaf, torch.zeros(SHAPE, dtype=torch.float64)) for leaf in state.values())
    zero = {name: leaf.numpy() for name, leaf in state.items()}
    position, _ = stepped(ASGLD(a=1000.0), np.ones(SHAPE), zero, np.full(SHAPE, 2.0), np.zeros(SHAPE))
    np.testing.assert_allclose(position, 1 - H * 2.0, rtol=1e-13)


def test_asgld_refuses_a_mean_that_forgets_more_slowly_than_the_size():
    with pytest.raises(UsageError, match=r"beta1\^2 = 0.9801 is not below beta2 = 0.9"):
        ASGLD(beta1=0.99, beta2=0.9)


@pytest.mark.parametrize("x", [0.05, 0.3, 1.2])
@pytest.mark.parametrize("lam", [1e-5, 0.1, 4.0])
@pytest.mark.parametrize("heat", [0.5, 1.0, 3.0])
def test_psgld_with_v_held_still_is_sgld_with_step_h_over_lam_plus_sqrt_v(x, lam, heat):
    """The probe starts at theta = 1 on curvature 1, so V = 1; a step near the mode makes decay V of it."""
    sampler, G = PSGLD(lam=lam), 1 / (lam + 0.99**0.5)
    assert derive(sampler, x / G, heat).stationary()[0, 0] == pytest.approx(heat / (1 - x / 2), rel=1e-7)
    assert stability_limit(sampler) == pytest.approx(2 / G, rel=1e-5)


@pytest.mark.parametrize("lam", [1e-2, 0.25, 4.0])
@pytest.mark.parametrize("a", [0.0, 0.5, 3.0])
def test_asgld_with_v_held_still_is_msgld_with_a_over_sqrt_lam(a, lam):
    """V starts at 0."""
    for h in (0.01, 0.03):
        stationary = derive(ASGLD(a=a, lam=lam), h, 1.5).stationary()
        expected = derive(MSGLD(a=a / lam**0.5), h, 1.5).stationary()
        assert stationary[0, 0] == pytest.approx(expected[0, 0], rel=1e-6)
