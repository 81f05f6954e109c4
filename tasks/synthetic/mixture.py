"""Mixtures of isotropic Gaussians: the potential, and the task that its instances share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import diagnostics, param
from harness.tasks import MOMENT_METRICS, DensityProblem, DensityTask, Metric, Observer, Truth, quantile_levels
from tasks.distances import DISTANCES, with_distances
from tasks.synthetic.noise import NOISE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, Streams

    Array = NDArray[np.float64]


def modes_axis() -> int:
    """Where the modes lie in memory beside the chains: last, or first where the step is compiled."""
    import torch

    return 0 if torch.compiler.is_compiling() else 1


class MixtureProblem(DensityProblem):
    """U(theta) = -log sum_m w_m N(theta; mu_m, s^2 I), with the noise of a `DensityProblem`.

    grad U = theta / s^2 - sum_m r_m mu_m / s^2, with r_m proportional to w_m exp(-|theta - mu_m|^2 / (2 s^2)), by
    softmax. |theta|^2 cancels in r, so the logits are linear in theta. Everything is per chain, so the bits do not
    depend on the other chains: sums run over the last axis, and over the first where the steps are compiled, whose
    chains lie side by side in the vector unit.
    """

    def __init__(self, task: MixtureTask, streams: Sequence[Streams], device: str) -> None:
        import torch

        means = torch.tensor(task.means, dtype=torch.float64, device=device)
        weights = torch.tensor(task.weights, dtype=torch.float64, device=device)
        super().__init__(task, streams, device)
        self.precision = 1 / task.variance
        self.pull = means.T.contiguous() * self.precision
        self.offset = weights.log() - means.square().sum(1) * self.precision / 2
        self.constant = self.dim / 2 * math.log(2 * math.pi * task.variance)

    def _logits(self, theta: Tensor, axis: int) -> Tensor:
        """log w_m - |theta - mu_m|^2 / (2 s^2) + |theta|^2 / (2 s^2); the modes along `axis`, 0 or 1."""
        logits = self.offset.unsqueeze(1 - axis)
        for d in range(self.dim):
            logits = logits + theta[:, d].unsqueeze(axis) * self.pull[d].unsqueeze(1 - axis)
        return logits

    def plain_energy(self, theta: Tensor) -> Tensor:
        axis = modes_axis()
        logits = self._logits(theta, axis)
        # log-sum-exp as l_m - log_softmax(l)_m at the largest m: unlike exp and log of a (C, M) tensor, whose bits
        # depend on where an element lies in it, log_softmax works row by row.
        top = logits.amax(axis) - logits.log_softmax(axis).amax(axis)
        return theta.square().sum(1) * (self.precision / 2) - top + self.constant

    def plain_gradient(self, theta: Tensor) -> Tensor:
        return theta * self.precision - self._pulled(theta)

    def _pulled(self, theta: Tensor) -> Tensor:
        """sum_m r_m mu_m / s^2: (C, D)."""
        axis = modes_axis()
        logits = self._logits(theta, axis)
        if axis == 1:
            return (logits.softmax(1)[:, None, :] * self.pull).sum(2)
        shares = (logits - logits.amax(0)).exp()
        return ((shares * self.pull[:, :, None]).sum(1) / shares.sum(0)).T


@dataclass(frozen=True, kw_only=True)
class MixtureTask(DensityTask):
    """A mixture of M equally weighted isotropic Gaussians; a subclass is its numbers.

    centres   the M means
    variance  of each coordinate within a mode
    box       chains start uniformly on [-box, box]^D
    """

    version: ClassVar = 2  # before, a gradient without noise cost as much as a noisy one
    gradient_noise: ClassVar = 1.0
    centres: ClassVar[tuple[tuple[float, ...], ...]]
    variance: ClassVar[float]

    noise: float = param(1.0, "[0, inf)", NOISE, source="1: Kim et al. 2022, 4.1, N(0, I)")  # type: ignore[misc]
    radius: float = param(
        0.25, "(0, inf)", "r: a draw within it of a centre visits the mode", source="Zhang et al. 2020, 5.1"
    )
    count: int = param(100, "[0, inf)", "n: a mode is covered by more than n visits", source="Zhang et al. 2020, 5.1")

    @property
    def means(self) -> Array:
        """The centres as an array (M, D)."""
        return np.array(self.centres, dtype=np.float64)

    @property
    def weights(self) -> Array:
        """The masses of the modes (M,)."""
        return np.full(len(self.centres), 1 / len(self.centres))

    def dim(self) -> int:
        return len(self.centres[0])

    def curvature(self) -> float:
        return 1 / self.variance

    def log_density(self, points: ArrayLike) -> Array:
        """log pi at points (n, D): (n,). For figures and checks, apart from the potential."""
        x = np.asarray(points, dtype=np.float64)
        squared = ((x[:, None, :] - self.means) ** 2).sum(axis=2)
        logs = np.log(self.weights) - squared / (2 * self.variance)
        constant = self.dim() / 2 * math.log(2 * math.pi * self.variance)
        return np.asarray(np.logaddexp.reduce(logs, axis=1) - constant)

    def sample(self, n: int, generator: np.random.Generator) -> Array:
        """n exact draws (n, D)."""
        modes = generator.choice(len(self.centres), size=n, p=self.weights)
        return self.means[modes] + math.sqrt(self.variance) * generator.standard_normal((n, self.dim()))

    def truth(self) -> Truth:
        w, v = self.weights, self.variance
        mean = w @ self.means
        covariance = (self.means - mean).T * w @ (self.means - mean) + v * np.eye(self.dim())
        along = diagnostics.directions(covariance)
        a = (self.means - mean) @ along.T  # (M, K)
        sd = np.sqrt(w @ (a**2 + v))
        exact = np.zeros_like(mean)
        return Truth(
            mean=mean,
            covariance=covariance,
            z3=w @ (a**3 + 3 * a * v) / sd**3,
            z4=w @ (a**4 + 6 * a**2 * v + 3 * v**2) / sd**4,
            mean_mcse=exact,
            sd_mcse=exact,
            how="closed form: moments of the mixture",
            quantiles=np.array([self._quantiles(row) for row in along @ self.means.T]),
        )

    def _quantiles(self, centres: Array) -> Array:
        """Of the mixture along a direction, with the modes at these centres (M,), by inverting it on a grid."""
        from scipy.special import ndtr

        sd = math.sqrt(self.variance)
        grid = np.arange(centres.min() - 6 * sd, centres.max() + 6 * sd, sd / 50)
        return np.interp(quantile_levels(), ndtr((grid[:, None] - centres) / sd) @ self.weights, grid)

    def observer(self, chains: int, trajectory: Trajectory, cost: Cost) -> Observer:
        from tasks.synthetic.observer import MixtureObserver

        return with_distances(self, MixtureObserver(self, chains, trajectory, cost), chains, trajectory)

    def build(self, streams: Sequence[Streams], device: str) -> MixtureProblem:
        return MixtureProblem(self, streams, device)


def mixture_metrics(primary: str, within: float, share: float) -> tuple[Metric, ...]:
    """The metrics of a mixture, `primary` first; `within` and `share` are what exact draws score at the defaults."""
    metrics = (
        Metric("modes_covered", "max", "modes", "modes with more than `count` draws within `radius`, chains pooled"),
        Metric("mode_mass_tv", "min", "1", "total variation between the shares of draws by nearest mode and the truth"),
        Metric(
            "within_mode_covariance_ratio", "target", "1",
            "mean squared distance to the nearest centre, per coordinate, over the variance of a mode", target=within,
        ),
        Metric(
            "share_within_r", "target", "1",
            "share of draws within `radius` of a centre; the target is for the default radius", target=share,
        ),
        Metric("last_mode_first_visit", "min", "steps", "first visit to the last mode; none while one is missing"),
        Metric("wasserstein2", "min", "1", "Wasserstein-2 distance of 500 of the draws to 500 exact ones"),
        Metric(
            "wasserstein2_baseline", "target", "1",
            "the same distance for independent exact draws, on average",
        ),
        *MOMENT_METRICS,
        *DISTANCES,
    )  # fmt: skip
    return tuple(sorted(metrics, key=lambda metric: metric.name != primary))
