"""The zig-zag sampler on minibatches: a step by hand, and the variance on a quadratic."""

import math

import numpy as np
import pytest
import torch
from kernels import Line, Noise, scalars, stepped

from plugins.samplers.sg_zigzag import SGZigzag

SHAPE = (400, 3)
H, T = 0.3, 1.7
QUARTIC = Line(lambda x: x.square().square() / 4, lambda x: x * x.square())


def test_a_step_of_the_zigzag_by_hand():
    rng = np.random.default_rng(3)
    theta, v, u = rng.standard_normal(SHAPE), rng.choice([-1.0, 1.0], SHAPE), rng.random(SHAPE)
    moved, state = stepped(SGZigzag(), theta, {"v": v}, QUARTIC.potential(), H, T, u)
    expected, velocity = theta.copy(), v.copy()
    for i in np.ndindex(SHAPE):
        rate = max(0.0, v[i] * theta[i] ** 3 / T)
        tau = -math.log(u[i]) / rate if rate else math.inf
        expected[i] += v[i] * min(tau, H) - v[i] * (H - min(tau, H))
        velocity[i] *= -1 if tau < H else 1
    assert 20 < (velocity != v).sum() < v.size - 20
    np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(state["v"], velocity)


def test_a_lost_gradient_is_seen_and_a_flat_one_turns_nobody():
    sampler = SGZigzag()
    h, heat = scalars(H, T)
    theta = torch.ones((4, 3), dtype=torch.float64)
    state = sampler.init(theta, None, h, heat, Noise(1))
    moved, _ = sampler.step(theta, state, Line(None, lambda x: x * math.nan).potential(), h, heat, Noise(2))
    assert moved.isnan().all()
    moved, _ = sampler.step(theta, state, Line(None, lambda x: 0 * x).potential(), h, heat, Noise(2))
    torch.testing.assert_close(moved, theta + H * state["v"])


def squares(h, chains, V=0.0, time=60):
    """The mean square of each of many chains on N(0, 1), from exact draws on; V is the variance of the gradient."""
    sampler, (size, heat) = SGZigzag(), scalars(h, 1.0)
    noise, draws = Noise(5), torch.Generator().manual_seed(6)
    theta = torch.randn((chains, 1), generator=draws, dtype=torch.float64)

    class Noisy:
        def grad(self, x):
            return x + math.sqrt(V) * torch.randn(x.shape, generator=draws, dtype=torch.float64)

    state, kept = sampler.init(theta, Noisy(), size, heat, noise), []
    for k in range(round(time / h)):
        theta, state = sampler.step(theta, state, Noisy(), size, heat, noise)
        if k * h > time / 4:
            kept.append(theta.square().mean(1))
    return torch.stack(kept).mean(0)


@pytest.mark.statistical
def test_turning_late_widens_the_zigzag_by_half_a_step():
    one = squares(0.2, 3000)
    assert float(one.mean() - 1) / 0.2 == pytest.approx(1 / math.sqrt(2 * math.pi), abs=0.06)


@pytest.mark.statistical
def test_what_noise_of_the_gradient_adds_falls_with_the_step():
    coarse, fine = (float(squares(h, 1000, V=9.0).mean()) for h in (0.2, 0.05))
    assert coarse > 1.15
    assert fine - 1 < 0.45 * (coarse - 1)
