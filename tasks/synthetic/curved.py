"""Curved densities in two dimensions: x is normal, and y is normal around a parabola of x."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.tasks import Truth, quantile_levels
from tasks.synthetic.noise import NoisyDensityTask

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    Array = NDArray[np.float64]

NODES = 40
"""Of Gauss-Hermite quadrature: exact for polynomials up to degree 79, and the moments have degree 8."""

REACH = np.linspace(-9, 9, 901)
"""Of the trapezoid rule over x, in sd. What a direction does not smooth by w is smoothed by one spacing, 0.02 sd: its
quantiles are off by 2e-4 sd."""

HALVINGS = 50


@dataclass(frozen=True, kw_only=True)
class CurvedDensity(NoisyDensityTask):
    """x ~ N(a, v), y given x ~ N(b x^2 + c, w): U = (x - a)^2 / 2v + (y - b x^2 - c)^2 / 2w.

    A subclass is its numbers. At a temperature T, v and w are T times as large. E y = b (a^2 + v) + c and
    var y = w + b^2 (4 a^2 v + 2 v^2).
    """

    a: ClassVar[float]
    b: ClassVar[float]
    c: ClassVar[float]
    v: ClassVar[float]
    w: ClassVar[float]

    def dim(self) -> int:
        return 2

    def energy(self, theta: Tensor) -> Tensor:
        x, off = theta[:, 0], theta[:, 1] - self.b * theta[:, 0] * theta[:, 0] - self.c
        return (x - self.a) * (x - self.a) / (2 * self.v) + off * off / (2 * self.w)

    def grad(self, theta: Tensor) -> Tensor:
        import torch

        x = theta[:, 0]
        off = (theta[:, 1] - self.b * x * x - self.c) / self.w
        return torch.stack([(x - self.a) / self.v - 2 * self.b * x * off, off], dim=1)

    def curvature(self) -> float:
        """The largest on the parabola within two sd of a, where off = 0: the Hessian is there J' diag(1/v, 1/w) J."""
        slope = 2 * self.b * (abs(self.a) + 2 * self.v**0.5)
        hessian = [[1 / self.v + slope**2 / self.w, -slope / self.w], [-slope / self.w, 1 / self.w]]
        return float(np.linalg.eigvalsh(hessian)[-1])

    def log_density(self, points: ArrayLike) -> Array:
        """log pi at points (n, 2): (n,)."""
        x, y = np.asarray(points, dtype=np.float64).T
        off = y - self.b * x**2 - self.c
        constant = np.log(2 * np.pi) + np.log(self.v * self.w) / 2
        return np.asarray(-((x - self.a) ** 2) / (2 * self.v) - off**2 / (2 * self.w) - constant)

    def sample(self, n: int, generator: np.random.Generator) -> Array:
        """n exact draws (n, 2)."""
        x = self.a + self.v**0.5 * generator.standard_normal(n)
        y = self.b * x**2 + self.c + self.w**0.5 * generator.standard_normal(n)
        return np.stack([x, y], axis=1)

    @functools.cache  # noqa: B019 - a frozen task is small, and its quantiles take a while
    def truth(self) -> Truth:
        nodes, mass = np.polynomial.hermite_e.hermegauss(NODES)
        first, second = np.meshgrid(nodes, nodes, indexing="ij")
        x = self.a + self.v**0.5 * first
        points = np.stack([x, self.b * x**2 + self.c + self.w**0.5 * second], axis=2).reshape(-1, 2)
        moments = Truth.of_points(
            points, np.outer(mass, mass).ravel(), "closed form: moments by Gauss-Hermite quadrature"
        )
        known = {name: getattr(moments, name) for name in ("mean", "covariance", "z3", "z4", "mean_mcse", "sd_mcse")}
        return Truth(**known, how=moments.how, quantiles=np.stack([self._quantiles(v) for v in moments.directions]))

    def _quantiles(self, direction: Array) -> Array:
        """Of d_x x + d_y y: its distribution function, an average over x, inverted by bisection."""
        from scipy.special import ndtr

        x = self.a + self.v**0.5 * REACH
        share = np.exp(-(REACH**2) / 2) / np.exp(-(REACH**2) / 2).sum()
        centre = direction[0] * x + direction[1] * (self.b * x**2 + self.c)
        width = max(abs(direction[1]) * self.w**0.5, abs(direction[0]) * self.v**0.5 * (REACH[1] - REACH[0]))
        low = np.full(len(quantile_levels()), centre.min() - 9 * width)
        high = np.full_like(low, centre.max() + 9 * width)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = share @ ndtr((middle - centre[:, None]) / width) < quantile_levels()
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2


@dataclass(frozen=True, kw_only=True)
class Banana(CurvedDensity):
    """x ~ N(0, 100), y given x ~ N(0.03 (x^2 - 100), 1): a long crescent of constant width. E y = 0, var y = 19.

    Chains start uniformly on [-3, 3]^2.

    Source: the banana of Haario, Saksman, Tamminen, "Adaptive proposal distribution for random walk Metropolis
    algorithm", Computational Statistics 14, 1999.
    """

    a: ClassVar = 0.0
    b: ClassVar = 0.03
    c: ClassVar = -3.0
    v: ClassVar = 100.0
    w: ClassVar = 1.0


@dataclass(frozen=True, kw_only=True)
class Rosenbrock(CurvedDensity):
    """U = ((x - 1)^2 + (x^2 - y)^2 / 0.1) / 2: x ~ N(1, 1), y given x ~ N(x^2, 0.1). E y = 2, var y = 6.1.

    A narrow curved valley, as narrow as 0.1 at its ends. SMILE's "banana" configurations are this density. Chains start
    uniformly on [-2, 2]^2.

    Source: one pair of SMILE's Rosenbrock density (arXiv 2602.06500).
    """

    a: ClassVar = 1.0
    b: ClassVar = 1.0
    c: ClassVar = 0.0
    v: ClassVar = 1.0
    w: ClassVar = 0.1
    box: ClassVar = 2.0
