"""The quartic with two modes, in one dimension."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import param
from harness.tasks import (
    MOMENT_METRICS,
    DensityTask,
    Metric,
    MomentObserver,
    Observer,
    Protocol,
    Truth,
    quantile_levels,
)
from tasks.distances import DISTANCES, with_distances
from tasks.synthetic.noise import NOISE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost

    Array = NDArray[np.float64]

GRID = np.linspace(-6, 6, 24_001)
"""Of the trapezoid rule, which is exact to rounding here: at its ends the density is below 1e-500."""

EDGES = np.linspace(-3, 3, 61)
"""Of the histogram that is compared with the density."""


@dataclass(frozen=True, kw_only=True)
class Bimodal1D(DensityTask):
    """pi(theta) proportional to exp(2 theta^2 - theta^4): modes at -1 and 1, a barrier of 1; N(0, V) gradient noise.

    The slides compare 15,000 iterations of sgld, sghmc and hmc on a density with two modes, by pictures of the density
    and of (theta, r); they print no number of it. This one is the toy of Chen et al. (figure 1), on which they make the
    same comparison, with their V = 4. Chains start uniformly on [-2, 2]. Beyond |theta| = (1/(2 h))^(1/2) or so a step
    of sgld throws a chain out: the gradient grows as the cube.

    Source: T. Chen, E. B. Fox, C. Guestrin, "Stochastic Gradient Hamiltonian Monte Carlo", ICML 2014,
    figure 1 and code.
    """

    version: ClassVar = 2  # before, a gradient without noise cost as much as a noisy one
    box: ClassVar = 2.0
    gradient_noise: ClassVar = 2.0
    protocols: ClassVar = (
        Protocol(
            "csgmcmc-slides",
            "slides on cyclical SG-MCMC: 15,000 iterations; the target is that of Chen et al. 2014",
            {"smoke": 1_500, "quick": 5_000, "paper": 15_000},
        ),
        Protocol(
            "csgmcmc-slides-hmc",
            "15,000 iterations of hmc, ten leapfrog steps each, which cost as much as a thousand noisy gradients",
            {"smoke": 100_000, "quick": 5_000_000, "paper": 15_000_000},
            seeds=tuple(range(20)),
        ),
    )
    metrics: ClassVar = (
        Metric("density_tv", "min", "1", "total variation between the histogram of draws, 60 cells, and the density"),
        Metric("mass_right", "target", "1", "share of draws above 0", target=0.5),
        *MOMENT_METRICS,
        *DISTANCES,
    )

    noise: float = param(1.0, "[0, inf)", NOISE, source="1: Chen et al. 2014, figure 1, V = 4")  # type: ignore[misc]

    def dim(self) -> int:
        return 1

    def energy(self, theta: Tensor) -> Tensor:
        square = theta[:, 0] * theta[:, 0]
        return square * square - 2 * square

    def grad(self, theta: Tensor) -> Tensor:
        return 4 * theta * (theta * theta - 1)

    def observer(self, chains: int, trajectory: Trajectory, cost: Cost) -> Observer:
        moments = MomentObserver(self.truth(), trajectory, cost, _histogram, _metrics)
        return with_distances(self, moments, chains, trajectory)

    def curvature(self) -> float:
        return 8.0

    def log_density(self, points: ArrayLike) -> Array:
        """log pi at points (n, 1): (n,)."""
        x = np.asarray(points, dtype=np.float64)[:, 0]
        return np.asarray(2 * x**2 - x**4 - np.log(_constant()))

    def sample(self, n: int, generator: np.random.Generator) -> Array:
        """n exact draws (n, 1), by inverting the distribution function on `GRID`."""
        return np.interp(generator.uniform(size=(n, 1)), np.cumsum(_density(GRID)) * (GRID[1] - GRID[0]), GRID)

    def truth(self) -> Truth:
        mass = _density(GRID)
        quantiles = np.interp(quantile_levels(), (np.cumsum(mass) - mass / 2) / mass.sum(), GRID)[None]
        return Truth.of_points(GRID[:, None], mass, "quadrature by the trapezoid rule", quantiles=quantiles)


@functools.cache
def _constant() -> float:
    return float(np.trapezoid(np.exp(2 * GRID**2 - GRID**4), GRID))


def _density(x: Array) -> Array:
    return np.asarray(np.exp(2 * x**2 - x**4) / _constant())


@functools.cache
def cell_masses() -> tuple[float, ...]:
    """The mass of the target in each cell of `EDGES`."""
    cells = (np.linspace(left, right, 201) for left, right in itertools.pairwise(EDGES))
    return tuple(float(np.trapezoid(_density(x), x)) for x in cells)


def _histogram(draws: Array, weights: Array) -> Array:
    """The weights in the cells, and in one for each side beyond them."""
    return np.bincount(np.searchsorted(EDGES, draws.ravel()), weights.ravel(), minlength=len(EDGES) + 1)


def _metrics(counts: Array) -> dict[str, float | None]:
    shares = counts / counts.sum()
    exact = np.array([0.0, *cell_masses(), 0.0])
    right = shares[len(shares) // 2 :].sum()
    return {"density_tv": float(np.abs(shares - exact).sum() / 2), "mass_right": float(right)}
