"""A smooth target that is no Gaussian: U = sum_i theta_i^2 / 2 + theta_i^4 / 4, all moments by quadrature."""

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
    """The law of a coordinate under exp(-U/T), as probabilities on the grid."""
    mass = np.exp(-(GRID**2 / 2 + GRID**4 / 4) / T)
    return mass / mass.sum()


def second_moment(T: float) -> float:
    """E theta_i^2 under exp(-U/T)."""
    return float(density(T) @ GRID**2)


class QuarticProblem(GaussianProblem):
    """The problem; chains start at exact draws at temperature `spread`."""

    def initial(self) -> Tensor:
        """Exact draws (C, D), by the inverse of the distribution function."""
        mass = density(self.spread)
        below = np.cumsum(mass) - mass / 2
        u = [torch.rand(self.dim, generator=s.torch("init"), dtype=torch.float64) for s in self.streams]
        return torch.from_numpy(np.interp(torch.stack(u).numpy(), below, GRID))

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """U (C,): the Gaussian's, and the quartic terms."""
        return super().energy(theta, batch) + theta.square().square().sum(1) / 4

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """grad U = theta + theta^3, (C, D)."""
        return super().gradient(theta, batch) + theta * theta.square()

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """The Hessian of U, which changes with theta: D = 1 / (1 + 3 theta^2) and its derivative."""
        inverse = 1 / (1 + 3 * theta.square())
        return inverse.diag_embed(), -6 * theta * inverse.square()


@dataclass(frozen=True, kw_only=True)
class QuarticTask(GaussianTask):
    """The quartic as a task, so that the harness's own loop can run on it; `curvatures` must be ones."""

    def build(self, streams: Sequence[Streams], device: str) -> QuarticProblem:
        """The problem of `len(streams)` chains, on CPU."""
        return QuarticProblem(torch.ones(self.dim(), dtype=torch.float64), spread=self.spread, streams=streams)
