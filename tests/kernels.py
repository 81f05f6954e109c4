"""Steps by hand, and the stationary law of a sampler in one dimension by quadrature instead of simulation."""

from __future__ import annotations

import numpy as np
import torch

from harness.engine.linear import ScriptedNoise
from harness.engine.stepping.potential import BoundPotential


def tensor(values):
    return torch.from_numpy(np.array(values, dtype=np.float64))


def scalars(*values):
    return [torch.tensor(value, dtype=torch.float64) for value in values]


class Noise:
    """One stream for all chains."""

    def __init__(self, seed=0):
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, like):
        return torch.randn(like.shape, generator=self.generator, dtype=like.dtype)

    def uniform(self, shape):
        return torch.rand(tuple(shape), generator=self.generator, dtype=torch.float64)


def stepped(sampler, theta, state, potential, h, T, *noise):
    """One step with the noise given, all in NumPy: the new position and state."""
    state = {name: torch.from_numpy(np.array(leaf)) for name, leaf in state.items()}
    script = ScriptedNoise([tensor(values) for values in noise])
    with torch.no_grad():
        new, left = sampler.step(tensor(theta), state, potential, tensor(h), tensor(T), script)
    return new.numpy(), {name: leaf.numpy() for name, leaf in left.items()}


class Fixed:
    """A potential whose gradient is the same everywhere."""

    terms = 1

    def __init__(self, g):
        self.g = tensor(g)

    def grad(self, x):
        return self.g.clone()


class Line:
    """A problem in one dimension, from U and its derivative as functions of theta (C, 1); and a metric, if any."""

    dim = 1

    def __init__(self, U, slope, metric=None):
        self.U, self.slope, self.given = U, slope, metric

    def gradient(self, theta, batch):
        return self.slope(theta)

    def energy_and_gradient(self, theta, batch):
        return self.U(theta)[:, 0], self.slope(theta)

    def metric(self, theta):
        D, Gamma = self.given(theta)
        return D[:, :, None], Gamma

    def potential(self):
        return BoundPotential(self, 1)


def kernel(mean, spread, grid):
    """The matrix of a step to N(mean, spread^2) from each point of the grid: rows are where it starts."""
    weights = np.exp(-0.5 * ((grid[None, :] - mean[:, None]) / spread[:, None]) ** 2)
    return weights / weights.sum(1, keepdims=True)


def step_kernel(sampler, problem, grid, h, T):
    """The kernel of a sampler without state, one normal a step, by what `step` does on the grid."""
    theta = grid[:, None]
    still, _ = stepped(sampler, theta, {}, problem.potential(), h, T, np.zeros_like(theta))
    pushed, _ = stepped(sampler, theta, {}, problem.potential(), h, T, np.ones_like(theta))
    return kernel(still[:, 0], (pushed - still)[:, 0], grid)


def stationary(matrix):
    """The law (n,) that a kernel leaves as it is."""
    n = len(matrix)
    system = np.vstack([matrix.T - np.eye(n), np.ones(n)])
    return np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]


def as_h_vanishes(measure, h):
    """measure(h) as h -> 0, the first and second order taken off."""
    whole, half, quarter = (measure(step) for step in (h, h / 2, h / 4))
    return (whole - 6 * half + 8 * quarter) / 3


def simulated(sampler, problem, h, T, theta, burn_in, steps, seed=0):
    """theta (C, 1) of independent chains after each of `steps` steps that follow a burn-in, (steps, C)."""
    potential, noise, h, T = problem.potential(), Noise(seed), *scalars(h, T)
    path = []
    with torch.no_grad():
        theta = tensor(theta)
        state = sampler.init(theta, potential, h, T, noise)
        for k in range(burn_in + steps):
            theta, state = sampler.step(theta, state, potential, h, T, noise)
            if k >= burn_in:
                path.append(theta[:, 0])
    return torch.stack(path).numpy()
