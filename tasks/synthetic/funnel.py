"""Neal's funnel: x is normal, with a variance that is log-normal."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import param
from harness.tasks import MomentObserver, Truth, quantile_levels
from tasks.distances import DistanceObserver, exact_draws, gradient
from tasks.synthetic.noise import NoisyDensityTask

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, Observer

    Array = NDArray[np.float64]

SPACING = 0.1
FREQUENCIES = (np.arange(600) + 0.5) * SPACING
"""Of the inversion, in units of 1 / sd: at the last the characteristic function of log|xi| is below 1e-17, and what
their spacing adds is the mass beyond 31 sd."""

REACH = 9.0
"""Sd within which all quantiles are, by Chebyshev's inequality."""

NEWTON = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Funnel(NoisyDensityTask):
    """U = t^2 / 18 + (d - 1) t / 2 + exp(-t) |x|^2 / 2: t ~ N(0, 9), and d - 1 coordinates x_i given t ~ N(0, exp(t)).

    At a temperature T, t ~ N(9 (d - 1)(T - 1) / 2, 9 T) and x_i given t ~ N(0, T exp(t)). theta = (t, x_1, ...).

    The tails of x_i are so heavy (E x_i^2 = 90, var x_i^2 = 2e8) that averages of x_i^2 do not settle. So all errors
    and distances are of t and log|x_i|, and the task states no truth of theta: `scored_truth` has the moments and
    quantiles of (t, log|x_1|, ...) in closed form. Chains start uniformly on [-2, 2]^d. The curvature is exp(-t),
    without a bound: a fixed step size leaves out the neck, t below log h.

    Source: R. M. Neal, "Slice sampling", Annals of Statistics 31, 2003.
    """

    version: ClassVar = 3  # before, a gradient without noise cost as much as a noisy one
    box: ClassVar = 2.0

    dimension: int = param(10, "[2, 100]", "d, t included", source="Neal 2003; SMILE")

    def dim(self) -> int:
        return self.dimension

    def energy(self, theta: Tensor) -> Tensor:
        t, x = theta[:, 0], theta[:, 1:]
        return t * t / 18 + (self.dimension - 1) * t / 2 + (-t).exp() * x.square().sum(1) / 2

    def grad(self, theta: Tensor) -> Tensor:
        import torch

        t, x = theta[:, :1], theta[:, 1:]
        narrow = (-t).exp()
        slope = t / 9 + (self.dimension - 1) / 2 - narrow * x.square().sum(1, keepdim=True) / 2
        return torch.cat([slope, narrow * x], dim=1)

    def curvature(self) -> float:
        """That of x two sd below the mean of t."""
        return math.exp(6)

    def observer(self, chains: int, trajectory: Trajectory, cost: Cost) -> Observer:
        moments = FunnelObserver(self.scored_truth(), trajectory, cost)
        return DistanceObserver(moments, chains, trajectory, self.scored_points, scored(exact_draws(self)))

    def scored_points(self, theta: Array) -> tuple[Array, Array]:
        """(t, log|x_1|, ...) of theta (n, d), and the gradient of -log pi there: along log|x_i|, x_i dU/dx_i - 1."""
        slopes = gradient(self, theta)
        slopes[:, 1:] = theta[:, 1:] * slopes[:, 1:] - 1
        return scored(theta), slopes

    def sample(self, n: int, generator: np.random.Generator, T: float = 1.0) -> Array:
        """n exact draws (n, d) at the temperature T."""
        t = self._mean(T) + 3 * math.sqrt(T) * generator.standard_normal((n, 1))
        x = np.exp(t / 2) * math.sqrt(T) * generator.standard_normal((n, self.dimension - 1))
        return np.concatenate([t, x], axis=1)

    @functools.cache  # noqa: B019 - a frozen task is small, and its quantiles take a while
    def scored_truth(self, T: float = 1.0) -> Truth:
        """Moments and quantiles of (t, log|x_1|, ...) at the temperature T.

        log|x_i| = (t + log T) / 2 + L_i with L_i = log|xi_i|, whose cumulants are polygamma functions of 1/2. A
        direction v sees a t + sum_i v_i L_i, a sum of independent terms: cumulants add, characteristic functions
        multiply.
        """
        from scipy.special import digamma, polygamma

        d = self.dimension
        scale = np.array([1.0, *[0.5] * (d - 1)])
        covariance = 9 * T * np.outer(scale, scale) + np.diag([0.0, *[polygamma(1, 0.5) / 4] * (d - 1)])
        mean = self._mean(T) * scale
        mean[1:] += (math.log(2 * T) + digamma(0.5)) / 2
        plain = Truth.normal(mean, covariance)
        v, of_logs = plain.directions, plain.directions[:, 1:]
        sd = np.sqrt((v @ covariance * v).sum(axis=1))
        normal = 3 * math.sqrt(T) * (v @ scale)
        shapes = _quantiles(of_logs / sd[:, None], normal / sd)
        return dataclasses.replace(
            plain,
            z3=(of_logs**3).sum(axis=1) * polygamma(2, 0.5) / 8 / sd**3,
            z4=3 + (of_logs**4).sum(axis=1) * polygamma(3, 0.5) / 16 / sd**4,
            quantiles=(v @ mean)[:, None] + sd[:, None] * shapes,
            how="closed form: cumulants, and quantiles by inversion of the characteristic function",
        )

    def _mean(self, T: float) -> float:
        """E t."""
        return 9 * (self.dimension - 1) * (T - 1) / 2


def _quantiles(weights: Array, normal: Array) -> Array:
    """(K, m), of z = normal xi + sum_i weights_i (L_i - E L_i), of variance 1; weights (K, d - 1), normal (K,).

    The distribution function by the formula of Gil-Pelaez, tabulated and inverted, then Newton's method.
    """
    from scipy.special import digamma, loggamma

    grid, levels, quantiles = np.linspace(-REACH, REACH, 361), quantile_levels(), []
    tabulated = np.exp(-1j * np.outer(grid, FREQUENCIES))
    for one, a in zip(weights, normal, strict=True):
        # L = log|xi| has the characteristic function 2^(iu/2) Gamma((1 + iu) / 2) / Gamma(1/2).
        u = np.outer(FREQUENCIES, one[one != 0])
        logs = loggamma((1 + 1j * u) / 2) - loggamma(0.5) - 1j * u * digamma(0.5) / 2
        phi = np.exp(logs.sum(axis=1) - (a * FREQUENCIES) ** 2 / 2) * SPACING / np.pi
        z = np.interp(levels, 0.5 - (tabulated @ (phi / FREQUENCIES)).imag, grid)
        for _ in range(NEWTON):
            waves = np.exp(-1j * np.outer(z, FREQUENCIES))
            z = z - (0.5 - (waves @ (phi / FREQUENCIES)).imag - levels) / (waves @ phi).real
        quantiles.append(z)
    return np.stack(quantiles)


def scored(draws: Array) -> Array:
    """(t, log|x_1|, ...) of theta (..., d)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.concatenate([draws[..., :1], np.log(np.abs(draws[..., 1:]))], axis=-1)


class FunnelObserver(MomentObserver):
    """Errors of t and log|x_i|."""

    def add(self, draws: Array, weights: Array) -> None:
        """Add draws (B, C, d) with weights (B, C)."""
        super().add(scored(draws), weights)
