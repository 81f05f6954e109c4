"""Skewed gradient noise of mean 0 shifts the mean of smile, by an amount that is proportional to the step size.

A batch turns u by a bounded angle, so a rare large gradient turns it less than in proportion. Where the noise n is
large beside the gradient, the mean velocity vanishes at E grad U = D h E[n |n|^2] / (3 (D + 2)(D - 1) T) to first order
in h.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from plugins.samplers.microcanonical import B
from plugins.samplers.smile import SMILE

SD = 4.0
VALUES, WEIGHTS = np.array([3.0, -1 / 3]), np.array([0.1, 0.9])
"""Two-point noise in each of two coordinates, of mean 0 and variance 1."""

SKEWNESS = float(WEIGHTS @ VALUES**3)
GRID = 720
"""Angles of u."""


def turned(angle, g, length):
    """The angles of u after a kick at T = 1: tan of half the angle to -g shrinks by exp(-length |g|)."""
    away = math.atan2(-g[1], -g[0])
    half = (angle - away) / 2
    return away + 2 * np.arctan2(np.sin(half) * math.exp(-length * math.hypot(*g)), np.cos(half))


def mean_velocity(gradient, h):
    """Of smile in two dimensions, along each axis, where the exact gradient is (gradient, gradient): by quadrature.

    The kicks of a batch follow each other, (1 - 2b) e, b e and, in the next step, b e; the drifts are after the first
    and after the last. So u between batches is a Markov chain on the circle; here its law on a grid.
    """
    length = math.sqrt(2 * h)
    angles = 2 * np.pi * np.arange(GRID) / GRID
    chain, middle = np.zeros((GRID, GRID)), np.zeros(GRID)
    for i, j in itertools.product(range(2), repeat=2):
        g, weight = gradient + SD * VALUES[[i, j]], WEIGHTS[i] * WEIGHTS[j]
        position = turned(angles, g, length) / (2 * np.pi) * GRID
        below = np.floor(position).astype(int)
        for k, share in ((below, 1 + below - position), (below + 1, position - below)):
            np.add.at(chain, (np.arange(GRID), k % GRID), weight * share)
        first = turned(angles, g, (1 - 2 * B) * length)
        middle += weight * (np.cos(first) + np.sin(first))
    equations = chain.T - np.eye(GRID)
    equations[-1] = 1
    law = np.linalg.solve(equations, np.eye(GRID)[-1])
    return float(law @ (middle + np.cos(angles) + np.sin(angles))) / 4


def shift(h):
    """The mean gradient at which the mean velocity vanishes: that of a Gaussian much wider than smile's free path."""
    return brentq(mean_velocity, 0.0, SD / 2, args=(h,), xtol=1e-6)


def simulated(values, weights, h, start, *, chains=1024, steps=1200, curvature=0.01):
    """The mean gradient on N(0, I / curvature), and its standard error, from chains around the shift `start`."""
    rng = np.random.default_rng(11)

    class Skewed:
        def __init__(self):
            self.slope = torch.from_numpy(SD * rng.choice(values, p=weights, size=(chains, 2)))

        def grad(self, x):
            return curvature * x + self.slope

    theta = torch.from_numpy(start / curvature + rng.standard_normal((chains, 2)) / math.sqrt(curvature))
    step, T = torch.tensor([h, 1.0], dtype=torch.float64)
    state, total = SMILE().init(theta, Skewed(), step, T, None), torch.zeros_like(theta)
    for k in range(steps):
        theta, state = SMILE().step(theta, dict(state), Skewed(), step, T, None)
        total += theta * (k >= steps // 4)
    means = curvature * total.mean(1).numpy() / (steps - steps // 4)
    return means.mean(), means.std(ddof=1) / math.sqrt(chains)


def test_the_shift_is_proportional_to_the_step_size():
    for h, within in ((1e-4, 0.01), (5e-4, 0.02)):
        assert shift(h) == pytest.approx(2 * h * SD**3 * SKEWNESS / (3 * 4 * 1), rel=within)


@pytest.mark.slow
def test_smile_has_the_shift_of_skewed_noise():
    h = 0.008
    expected = shift(h)  # a tenth less than to first order
    mean, error = simulated(VALUES, WEIGHTS, h, expected)
    assert error < 0.02 * expected
    assert abs(mean - expected) < 4.5 * error


def test_smile_has_no_shift_under_the_same_noise_with_random_signs():
    mean, error = simulated(np.concatenate([VALUES, -VALUES]), np.tile(WEIGHTS / 2, 2), 0.008, 0.0)
    assert abs(mean) < 4.5 * error
