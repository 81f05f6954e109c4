"""The correlated Gaussian in two dimensions."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import param
from harness.tasks import MOMENT_METRICS, DensityTask, Metric, MomentObserver, Observer, Protocol, Truth
from tasks.distances import DISTANCES, with_distances
from tasks.synthetic.noise import NOISE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost

    Array = NDArray[np.float64]

SLIDES = "slides on cyclical SG-MCMC: 15,000 iterations; numbers of the target are ours, after Chen et al. 2014"


@dataclass(frozen=True, kw_only=True)
class Gaussian2D(DensityTask):
    """N(0, S) with unit variances and correlation rho, its gradients with N(0, V I) noise: one mode, one long axis.

    The slides compare sgld, sghmc with friction, and hmc with and without drawing the momentum anew, by pictures of
    15,000 iterations; they print no number of the target. Correlation and noise here are those of the toy of Chen et
    al. (figure 3). Chains start uniformly on [-3, 3]^2.

    Source: T. Chen, E. B. Fox, C. Guestrin, "Stochastic Gradient Hamiltonian Monte Carlo", ICML 2014,
    figure 3 and code.
    """

    version: ClassVar = 2  # before, a gradient without noise cost as much as a noisy one
    box: ClassVar = 3.0
    gradient_noise: ClassVar = 1.0
    protocols: ClassVar = (
        Protocol("csgmcmc-slides", SLIDES, {"smoke": 1_500, "quick": 5_000, "paper": 15_000}),
        Protocol(
            "csgmcmc-slides-hmc",
            "15,000 iterations of hmc, ten leapfrog steps each, which cost as much as a thousand noisy gradients",
            {"smoke": 100_000, "quick": 5_000_000, "paper": 15_000_000},
            seeds=tuple(range(20)),
        ),
    )
    metrics: ClassVar = (
        Metric(
            "wasserstein2_normal", "min", "1",
            "Wasserstein-2 distance to the target of the normal that has the draws' mean and covariance",
        ),
        Metric("correlation", "target", "1", "of the draws; the target is for the default rho", target=0.9),
        *MOMENT_METRICS,
        *DISTANCES,
    )  # fmt: skip

    rho: float = param(0.9, "(-1, 1)", "correlation", source="Chen et al. 2014, figure 3")
    noise: float = param(1.0, "[0, inf)", NOISE, source="1: Chen et al. 2014, figure 3, V = 1")  # type: ignore[misc]

    @property
    def covariance(self) -> Array:
        """S (2, 2)."""
        return np.array([[1.0, self.rho], [self.rho, 1.0]])

    def dim(self) -> int:
        return 2

    def grad(self, theta: Tensor) -> Tensor:
        import torch

        x, y = theta[:, 0], theta[:, 1]
        (a, b), (c, d) = self.precision
        return torch.stack([a * x + b * y, c * x + d * y], dim=1)

    def energy(self, theta: Tensor) -> Tensor:
        slope = self.grad(theta)
        return (theta[:, 0] * slope[:, 0] + theta[:, 1] * slope[:, 1]) / 2

    @functools.cached_property
    def precision(self) -> list[list[float]]:
        """The inverse of S, as numbers."""
        rows: list[list[float]] = np.linalg.inv(self.covariance).tolist()
        return rows

    def observer(self, chains: int, trajectory: Trajectory, cost: Cost) -> Observer:
        moments = MomentObserver(self.truth(), trajectory, cost, _sums, self._metrics)
        return with_distances(self, moments, chains, trajectory)

    def _metrics(self, sums: Array) -> dict[str, float | None]:
        if not np.isfinite(sums).all():
            return {"wasserstein2_normal": None, "correlation": None}
        _, x, y, xx, xy, yy = sums / sums[0]
        covariance = np.array([[xx - x * x, xy - x * y], [xy - x * y, yy - y * y]])
        spread = covariance[0, 0] * covariance[1, 1]
        return {
            "wasserstein2_normal": normal_distance(np.array([x, y]), covariance, self.covariance),
            "correlation": float(covariance[0, 1] / np.sqrt(spread)) if spread > 0 else None,
        }

    def curvature(self) -> float:
        return 1 / (1 - abs(self.rho))

    def log_density(self, points: ArrayLike) -> Array:
        """log pi at points (n, 2): (n,)."""
        x = np.asarray(points, dtype=np.float64)
        squares = (x @ np.linalg.inv(self.covariance) * x).sum(axis=1)
        return np.asarray(-squares / 2 - np.log(2 * np.pi) - np.log(np.linalg.det(self.covariance)) / 2)

    def sample(self, n: int, generator: np.random.Generator) -> Array:
        """n exact draws (n, 2)."""
        return generator.multivariate_normal(np.zeros(2), self.covariance, size=n, method="cholesky")

    def truth(self) -> Truth:
        return Truth.normal(np.zeros(2), self.covariance)


def _sums(draws: Array, weights: Array) -> Array:
    """Of w, and of w x, w y, w x^2, w x y, w y^2."""
    w, (x, y) = weights.ravel(), draws.reshape(-1, 2).T
    return np.asarray(np.stack([w, w * x, w * y, w * x * x, w * x * y, w * y * y]).sum(axis=1))


def normal_distance(mean: Array, covariance: Array, target: Array) -> float:
    """Wasserstein-2 from N(mean, covariance) to N(0, target): W^2 = |mean|^2 + tr(A + B - 2 (A^1/2 B A^1/2)^1/2)."""
    root = _root(target)
    cross = _root(root @ covariance @ root)
    return float(np.sqrt(max(mean @ mean + np.trace(covariance + target - 2 * cross), 0.0)))


def _root(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(values.clip(min=0)) @ vectors.T)
