"""The bouncy particle sampler on minibatches: a step by hand, and the bias of its two reflections."""

import math

import numpy as np
import pytest
import torch
from kernels import Fixed, Noise, scalars, stepped

from plugins.samplers.sg_bps import SGBPS

SHAPE = (400, 3)
H, T = 0.3, 1.7


class Quartic:
    """U = sum_i theta_i^4 / 4 + theta_0 theta_1."""

    def grad(self, x):
        return x**3 + torch.stack([x[:, 1], x[:, 0], 0 * x[:, 2]], 1)


def gradient(x):
    return x**3 + np.array([x[1], x[0], 0.0])


@pytest.mark.parametrize("reflection", ["event", "start"])
def test_a_step_of_the_bouncy_particle_by_hand(reflection):
    rng = np.random.default_rng(3)
    theta, v, drawn = rng.standard_normal((3, *SHAPE))
    u, w = rng.random((2, SHAPE[0], 1))
    sampler = SGBPS(reflection=reflection, refreshment_rate=0.9)
    moved, state = stepped(sampler, theta, {"v": v}, Quartic(), H, T, u, w, drawn)
    expected, velocity, events = theta.copy(), v.copy(), {"none": 0, "reflected": 0, "drawn": 0}
    for i, x in enumerate(theta):
        rate = max(0.0, v[i] @ gradient(x) / T)
        tau = -math.log(u[i, 0]) / rate if rate else math.inf
        s = -math.log(w[i, 0]) / 0.9
        what = "none" if min(tau, s) >= H else "reflected" if tau < s else "drawn"
        events[what] += 1
        time = min(tau, s, H)
        if what == "reflected":
            k = gradient(x + time * v[i] if reflection == "event" else x)
            velocity[i] = v[i] - 2 * (v[i] @ k) / (k @ k) * k
        elif what == "drawn":
            velocity[i] = drawn[i]
        expected[i] = x + time * v[i] + (H - time) * velocity[i]
    assert min(events.values()) > 40
    np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(state["v"], velocity, rtol=0, atol=1e-12)


@pytest.mark.parametrize("reflection", ["event", "start"])
def test_a_lost_gradient_is_seen_and_a_flat_one_reflects_nobody(reflection):
    sampler = SGBPS(reflection=reflection, refreshment_rate=0.0)
    h, heat = scalars(H, T)
    theta = torch.ones((4, 3), dtype=torch.float64)
    state = sampler.init(theta, None, h, heat, Noise(1))
    for value in (math.nan, math.inf, -math.inf):
        moved, _ = sampler.step(theta, state, Fixed(np.full((4, 3), value)), h, heat, Noise(2))
        assert not moved.isfinite().any()
    moved, left = sampler.step(theta, state, Fixed(np.zeros((4, 3))), h, heat, Noise(2))
    torch.testing.assert_close(moved, theta + H * state["v"])
    torch.testing.assert_close(left["v"], state["v"])


def test_a_reflection_keeps_the_speed_and_turns_the_slope():
    v, k = torch.from_numpy(np.random.default_rng(4).standard_normal((2, *SHAPE)))
    new = SGBPS().reflected(v, k)
    torch.testing.assert_close(new.square().sum(1), v.square().sum(1))
    torch.testing.assert_close((new * k).sum(1), -(v * k).sum(1))


def test_the_reflection_at_the_start_saves_a_gradient():
    assert [SGBPS(reflection=name).gradients_per_step for name in ("event", "start")] == [2, 1]


def squares(sampler, h, chains, dim, time, V=0.0):
    """The mean square of each of many chains on N(0, I), from exact draws on; V is the variance of the gradient."""
    size, heat = scalars(h, 1.0)
    noise, draws = Noise(5), torch.Generator().manual_seed(6)
    theta = torch.randn((chains, dim), generator=draws, dtype=torch.float64)

    class Noisy:
        """One minibatch: its error is the same wherever the gradient is taken."""

        def __init__(self):
            self.error = math.sqrt(V) * torch.randn(theta.shape, generator=draws, dtype=torch.float64)

        def grad(self, x):
            return x + self.error

    state, kept = sampler.init(theta, Noisy(), size, heat, noise), []
    for k in range(round(time / h)):
        theta, state = sampler.step(theta, state, Noisy(), size, heat, noise)
        if k * h > time / 4:
            kept.append(theta.square().mean(1))
    return float(torch.stack(kept).mean())


@pytest.mark.statistical
def test_the_reflection_at_the_event_biases_much_less_than_that_at_the_start():
    event, start = (squares(SGBPS(reflection=name), 0.05, 500, 10, 100) for name in ("event", "start"))
    assert event == pytest.approx(1, abs=0.06)
    assert start > 2


@pytest.mark.statistical
def test_gradient_noise_leaves_little_between_the_two_reflections():
    event, start = (squares(SGBPS(reflection=name), 0.1, 500, 10, 60, V=9.0) for name in ("event", "start"))
    assert (event - 1) / 0.1 == pytest.approx(8.4, abs=1)
    assert (start - 1) / 0.1 == pytest.approx(9.1, abs=1)


@pytest.mark.statistical
@pytest.mark.parametrize("reflection", ["event", "start"])
def test_what_noise_of_the_gradient_adds_falls_with_the_step(reflection):
    coarse, fine = (squares(SGBPS(reflection=reflection), h, 500, 3, 60, V=9.0) for h in (0.2, 0.05))
    assert coarse > 1.15
    assert fine - 1 < 0.45 * (coarse - 1)
