"""The largest stable step size, from the spectral radius of a sampler's linear step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from harness.engine.gaussian import GaussianTask
from harness.engine.linear import SHORT, Probe, at_work, derive

if TYPE_CHECKING:
    from harness.contracts.sampler import Sampler

    Array = NDArray[np.float64]

LARGEST_X = 1e3
"""Largest step size in the search for a stability limit."""


def stability_limit(sampler: Sampler) -> float | None:
    """Return the smallest h, at curvature 1, at which the spectral radius of A reaches 1; inf if none does up to 1000.

    Return None if the sampler is not linear (Metropolis, thermostats) or needs more than gradients.
    """
    if sampler.needs - GaussianTask.provides or not derive(sampler, 1.0, 1.0).linear:
        return None
    probe = Probe(sampler, 1.0, 1.0, (1.0,))
    grid = np.geomspace(1e-9, LARGEST_X, 480)
    for _ in range(9):
        above = _radii(probe, grid) > 1 + 1e-13
        if not above.any():
            return math.inf if grid[-1] == LARGEST_X else float(grid[-1])
        first = int(above.argmax())
        grid = np.linspace(grid[max(first - 1, 0)], grid[first], 33)
    return float(grid[-1])


def working_limit(sampler: Sampler) -> float | None:
    """Return the stability limit with the adaptive entries of a run in progress."""
    return stability_limit(at_work(sampler))


def _radii(probe: Probe, h: Array) -> Array:
    """Return the spectral radius of A at each step size h (X,), at curvature 1."""
    n = probe.size
    size = SHORT if probe.sampler.adaptive else 1.0
    with torch.no_grad():
        z = size * torch.eye(n, dtype=torch.float64).repeat(len(h), 1)
        curvature = torch.ones(1, dtype=torch.float64)
        probe.h = torch.from_numpy(h).repeat_interleave(n)[:, None]
        xi = torch.zeros((len(z), probe.noise_size), dtype=torch.float64)
        slope = torch.zeros((len(z), 1), dtype=torch.float64)
        answers = probe.answer(z, xi, slope, curvature) - probe.answer(torch.zeros_like(z), xi, slope, curvature)
    columns = answers.reshape(len(h), n, n).numpy() / size
    return np.abs(np.linalg.eigvals(columns)).max(axis=1)
