"""A smooth target that is no Gaussian, in one dimension: U = theta^2 / 2 + theta^4 / 4, all moments by quadrature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from harness.conformance.gaussian import GaussianProblem, GaussianTask

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.randomness import Streams
    from harness.task import Batch

    Array = NDArray[np.float64]

GRID = np.linspace(-8, 8, 4001)
"""exp(-U/3) is 1e-150 at the ends: the trapezoid rule is exact to rounding at every T up to 3."""


def density(T: float) -> Array:
    """exp(-U/T) on the grid, as probabilities."""
    mass = np.exp(-(GRID**2 / 2 + GRID**4 / 4) / T)
    return mass / mass.sum()


def second_moment(T: float) -> float:
    """E theta^2 under exp(-U/T)."""
    return float(density(T) @ GRID**2)


class QuarticProblem(GaussianProblem):
    """The problem; chains start at exact draws at temperature `spread`."""

    def initial(self) -> Tensor:
        """Exact draws (C, 1), by the inverse of the distribution function."""
        mass = density(self.spread)
        below = np.cumsum(mass) - mass / 2
        u = [float(torch.rand((), generator=s.torch("init"), dtype=torch.float64)) for s in self.streams]
        return torch.from_numpy(np.interp(u, below, GRID))[:, None]

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """U (C,)."""
        return self.scale * (theta.square() / 2 + theta.square().square() / 4)[:, 0]

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """grad U = theta + theta^3, (C, 1)."""
        return self.scale * (theta + theta * theta.square())


@dataclass(frozen=True, kw_only=True)
class QuarticTask(GaussianTask):
    """The quartic as a task, so that the harness's own loop can run on it."""

    curvatures: tuple[float, ...] = (1.0,)

    def build(self, streams: Sequence[Streams], device: str) -> QuarticProblem:
        """The problem of `len(streams)` chains, on CPU."""
        curvature = torch.ones(1, dtype=torch.float64)
        return QuarticProblem(curvature, scale=self.scale, spread=self.spread, streams=streams)
