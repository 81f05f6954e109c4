"""The ill-conditioned Gaussian: dimension and condition are settings."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import param
from harness.tasks import Truth, constant
from tasks.synthetic.noise import NoisyDensityTask, rotation

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class IllConditionedGaussian(NoisyDensityTask):
    """N(0, S), S = Q diag(s^2) Q' with s^2 log-spaced from kappa^-1/2 to kappa^1/2 and Q a fixed rotation.

    kappa is the condition of S. At the default of 10^4 in ten dimensions the curvatures are 0.01 to 100: a step that
    is stable along the stiffest direction needs thousands to cross the softest. Chains start uniformly on [-1, 1]^D.

    Source: the Gaussian of SMILE (arXiv 2602.06500): D = 10, s from 0.1 to 10.
    """

    box: ClassVar = 1.0

    dimension: int = param(10, "[2, 1000]", "D", source="SMILE")
    condition: float = param(1e4, "[1, 1e6]", "kappa, of the covariance", source="SMILE")

    def dim(self) -> int:
        return self.dimension

    @functools.cached_property
    def variances(self) -> Array:
        """s^2 (D,), along the columns of Q."""
        return np.asarray(np.geomspace(self.condition**-0.5, self.condition**0.5, self.dimension))

    def _along(self, divisors: Array) -> Array:
        Q = rotation(self.dimension)
        return np.asarray(Q / divisors @ Q.T)

    @functools.cached_property
    def precision(self) -> tuple[float, ...]:
        """The inverse of S, row by row."""
        return tuple(self._along(self.variances).ravel().tolist())

    def grad(self, theta: Tensor) -> Tensor:
        # Sums over the last axis: the bits of a chain do not depend on the others.
        return (theta[:, None, :] * constant(self.precision, theta).view(self.dimension, -1)).sum(2)

    def energy(self, theta: Tensor) -> Tensor:
        return (theta * self.grad(theta)).sum(1) / 2

    def curvature(self) -> float:
        return float(1 / self.variances[0])

    def log_density(self, points: ArrayLike) -> Array:
        """log pi at points (n, D): (n,)."""
        x = np.asarray(points, dtype=np.float64) @ rotation(self.dimension)
        return np.asarray(-(x**2 / self.variances + np.log(2 * np.pi * self.variances)).sum(axis=1) / 2)

    def sample(self, n: int, generator: np.random.Generator) -> Array:
        """n exact draws (n, D)."""
        return generator.standard_normal((n, self.dimension)) * np.sqrt(self.variances) @ rotation(self.dimension).T

    def truth(self) -> Truth:
        return Truth.normal(np.zeros(self.dimension), self._along(1 / self.variances))
