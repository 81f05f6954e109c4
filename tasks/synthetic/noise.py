"""Gradient noise of several kinds, for densities whose exact law is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import param
from harness.tasks import MOMENT_METRICS, DensityTask, MomentObserver, Observer, Protocol
from tasks.distances import DISTANCES, with_distances

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness import Trajectory
    from harness.tasks import Cost

    Array = NDArray[np.float64]

NOISE = "sd of the gradient noise, in units of the task's own; 0: exact gradients, each a whole data pass"
"""The meaning of the setting `noise` of densities."""

SPREAD = 100.0
"""Of anisotropic and correlated noise: its largest variance over its smallest."""

FREEDOM = 5
"""Degrees of freedom of the t distribution."""

KINDS = ("isotropic", "anisotropic", "correlated", "student-t", "laplace", "skewed")


@dataclass(frozen=True, kw_only=True)
class NoisyDensityTask(DensityTask):
    """A density in closed form whose gradients have noise of a chosen kind: `noise` times n, of mean 0, in each step.

        isotropic    n_i = xi_i
        anisotropic  n_i = s_i xi_i,   s_i^2 log-spaced over a factor of 100, of mean 1
        correlated   n = Q (s xi),     Q a fixed rotation
        student-t    n_i = t_5 / sqrt(5/3)
        laplace      n_i = Laplace / sqrt(2)
        skewed       n_i = (exp(xi_i) - sqrt(e)) / sqrt(e^2 - e), a centred log-normal

    The variance of n_i is 1, on average over the coordinates where it differs; xi ~ N(0, I).

    Source: the kinds of noise of SMILE (arXiv 2602.06500), whose sd is 16.
    """

    version: ClassVar = 2  # before, a gradient without noise cost as much as a noisy one
    gradient_noise: ClassVar = 1.0
    metrics: ClassVar = (*MOMENT_METRICS, *DISTANCES)
    protocols: ClassVar = (
        Protocol("noisy-gradients", "ours, after the analytic targets of SMILE (arXiv 2602.06500)",
                 {"smoke": 1_500, "quick": 10_000, "paper": 50_000}),
        *(
            Protocol(
                f"smile-{kind}",
                f"{kind} noise of sd 16, as in SMILE's analytic suite, whose chains are up to ten times as long",
                {"smoke": 1_500, "quick": 20_000, "paper": 100_000},
                seeds=tuple(range(10)),
                settings={"task.noise": 16.0, "task.noise_kind": kind},
            )
            for kind in KINDS
        ),
    )  # fmt: skip

    noise: float = param(1.0, "[0, inf)", NOISE, source="ours; 16 in SMILE")  # type: ignore[misc]
    noise_kind: str = param("isotropic", choices=KINDS, meaning="kind of gradient noise", source="SMILE's")

    def observer(self, chains: int, trajectory: Trajectory, cost: Cost) -> Observer:
        truth = self.truth()
        assert truth is not None, "a density without a truth has an observer of its own"
        return with_distances(self, MomentObserver(truth, trajectory, cost), chains, trajectory)

    def sample(self, n: int, generator: np.random.Generator) -> Array:
        """n exact draws (n, D)."""
        raise NotImplementedError(f"{type(self).__name__} has no exact draws")

    def unit_noise(self, generator: np.random.Generator, steps: int) -> Array:
        shape = (steps, self.dim())
        if self.noise_kind == "student-t":
            return generator.standard_t(FREEDOM, shape) / np.sqrt(FREEDOM / (FREEDOM - 2))
        if self.noise_kind == "laplace":
            return generator.laplace(size=shape) / np.sqrt(2)
        xi = generator.standard_normal(shape)
        if self.noise_kind == "skewed":
            return np.asarray((np.exp(xi) - np.exp(0.5)) / np.sqrt(np.e**2 - np.e))
        if self.noise_kind == "isotropic":
            return xi
        scaled = xi * scales(self.dim())
        return scaled if self.noise_kind == "anisotropic" else (scaled[:, None, :] * rotation(self.dim())).sum(axis=2)


def scales(dim: int) -> Array:
    """s (D,): squares log-spaced over SPREAD, of mean 1."""
    squares = np.geomspace(1, SPREAD, dim)
    return np.asarray(np.sqrt(squares / squares.mean()))


def rotation(dim: int, seed: int = 0) -> Array:
    """A fixed orthogonal matrix (D, D), uniform among them for the seeds."""
    from scipy.stats import ortho_group

    if dim == 1:
        return np.ones((1, 1))
    return np.asarray(ortho_group.rvs(dim, random_state=np.random.default_rng(seed)))
