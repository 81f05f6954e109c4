"""The targets on which the whole law of a sampler is simulated: their energies, exact draws, and moments.

Each consists of independent blocks, so it exists in as many dimensions as a sampler needs.

gaussian    U = sum_i theta_i^2 / 2
quartic     U = sum_i theta_i^2 / 2 + theta_i^4 / 4
correlated  pairs of coordinates with correlation .9 and unit variance
rotated     blocks of ten, eigenvalues of the precision from 1 to 100, along random directions: no entry is small
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import torch
from torch import Tensor

from harness import param
from harness.tasks import Streams
from plugins.checking.gaussian import TERMS, Batch, GaussianProblem, GaussianTask
from plugins.checking.law import Array

GRID = np.linspace(-24, 24, 19201)
"""Where the law of a coordinate is tabulated: with a standard deviation of 3, the tails left out are below 1e-15."""

CORRELATION = 0.9
CONDITION = 100.0


def quartic_density(T: float) -> Array:
    """Return the law of a coordinate of the quartic under exp(-U/T), as probabilities on the grid."""
    mass = np.exp(-(GRID**2 / 2 + GRID**4 / 4) / T)
    return mass / mass.sum()


@cache
def precision(kind: str) -> Array:
    """Return the precision matrix of one block of a Gaussian target."""
    if kind == "gaussian":
        return np.eye(1)
    if kind == "correlated":
        return np.linalg.inv(np.array([[1.0, CORRELATION], [CORRELATION, 1.0]]))
    rotation, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((10, 10)))
    dense: Array = rotation * np.geomspace(1.0, CONDITION, 10) @ rotation.T
    return dense


@dataclass(frozen=True, eq=False)
class DrawLaw:
    """The law of the kept draws: independent coordinates z = theta W of mean 0, variance 1 and E z^4 = `fourth`.

    `draw` makes exact draws theta (C, D) of the law from streams.
    """

    whiten: Array
    fourth: float
    draw: Callable[[Sequence[Streams]], Tensor]


@dataclass(frozen=True)
class Target:
    """A target in `dim` dimensions at temperature T, with gradient noise of variance `variance`.

    `density` is the law of a coordinate on GRID if that is not exp(-U/T); if None, the law is exp(-U / (ratio T)).
    """

    kind: str
    T: float
    dim: int
    variance: float = 0.0
    ratio: float = 1.0
    density: tuple[float, ...] | None = None

    @property
    def quartic(self) -> bool:
        """Whether the target is the quartic, which is not Gaussian."""
        return self.kind == "quartic"

    @cached_property
    def precision(self) -> Array:
        """The precision matrix (D, D); for the quartic, that of its quadratic part."""
        block = precision("gaussian" if self.quartic else self.kind)
        return np.kron(np.eye(self.dim // len(block)), block).astype(np.float64)

    @property
    def curvature(self) -> float:
        """The largest eigenvalue of the Hessian; an average one if the Hessian is not constant."""
        return 1 + 3 * self.law_variance if self.quartic else float(np.linalg.eigvalsh(self.precision)[-1])

    @property
    def condition(self) -> float:
        """The largest eigenvalue of the precision over the smallest."""
        values = np.linalg.eigvalsh(self.precision)
        return float(values[-1] / values[0])

    @cached_property
    def coordinate(self) -> Array | None:
        """The law of a coordinate as probabilities on the grid; None if it is Gaussian."""
        if self.density is not None:
            return np.array(self.density)
        return quartic_density(self.ratio * self.T) if self.quartic else None

    @property
    def law_variance(self) -> float:
        """The variance of a coordinate whose law is tabulated."""
        assert self.coordinate is not None
        return float(self.coordinate @ GRID**2)

    @cached_property
    def law(self) -> DrawLaw:
        """The law that the draws should follow."""
        mass = self.coordinate
        if mass is None:
            root = np.linalg.cholesky(self.precision) / np.sqrt(self.ratio * self.T)
            values, vectors = np.linalg.eigh(self.precision)
            whiten = vectors * np.sqrt(values / (self.ratio * self.T))
            return DrawLaw(
                whiten, 3.0, lambda streams: _normals(streams, self.dim) @ torch.from_numpy(np.linalg.inv(root))
            )
        sd = np.sqrt(self.law_variance)
        below = np.cumsum(mass) - mass / 2

        def draw(streams: Sequence[Streams]) -> Tensor:
            u = [torch.rand(self.dim, generator=s.torch("init"), dtype=torch.float64) for s in streams]
            return torch.from_numpy(np.interp(torch.stack(u).numpy(), below, GRID))

        return DrawLaw(np.eye(self.dim) / sd, float(mass @ GRID**4) / sd**4, draw)

    @cached_property
    def task(self) -> TargetTask:
        """The target as a task for the harness's own loop."""
        task = TargetTask(curvatures=(1.0,) * self.dim, variance=self.variance)
        object.__setattr__(task, "_target", self)
        return task

    def __str__(self) -> str:
        noise = f", gradient noise of variance {self.variance:g}" if self.variance else ""
        return f"{self.kind}, D = {self.dim}, T = {self.T:g}{noise}"


def _normals(streams: Sequence[Streams], dim: int) -> Tensor:
    return torch.stack([torch.randn(dim, generator=s.torch("init"), dtype=torch.float64) for s in streams])


class TargetProblem(GaussianProblem):
    """The potential of a target. Chains start at exact draws of the law that the sampler should have."""

    def __init__(self, target: Target, streams: Sequence[Streams]) -> None:
        super().__init__(torch.ones(target.dim, dtype=torch.float64), variance=target.variance, streams=streams)
        self.target = target
        self.quartic = target.quartic
        self.precision = torch.from_numpy(target.precision)
        self.dense = not np.array_equal(target.precision, np.eye(target.dim))

    def initial(self) -> Tensor:
        """Return exact draws (C, D)."""
        return self.target.law.draw(self.streams)

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return U (C,)."""
        U = (theta * self._slope(theta)).sum(1) / 2
        if self.quartic:
            U = U + theta.square().square().sum(1) / 4
        return U if batch is None else U + (batch["slope"] * theta).sum(1)

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return grad U (C, D)."""
        g = self._slope(theta)
        if self.quartic:
            g = g + theta * theta.square()
        return g if batch is None else g + batch["slope"]

    def _slope(self, theta: Tensor) -> Tensor:
        return (theta[:, None, :] * self.precision).sum(-1) if self.dense else theta

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inverse Hessian of U and its divergence: constant, except 1 / (1 + 3 theta^2) for the quartic."""
        if self.quartic:
            inverse = 1 / (1 + 3 * theta.square())
            return inverse.diag_embed(), -6 * theta * inverse.square()
        return torch.linalg.inv(self.precision).expand(len(theta), -1, -1), theta.new_zeros(theta.shape)


@dataclass(frozen=True, kw_only=True)
class TargetTask(GaussianTask):
    """A target as a task, made by `Target.task`."""

    curvatures: tuple[float, ...] = param((1.0,), meaning="as many ones as dimensions")

    def terms(self) -> int:
        """Return a number above 1."""
        return TERMS

    def curvature(self) -> float:
        """Return the largest eigenvalue of the Hessian."""
        return self.target.curvature

    @property
    def target(self) -> Target:
        """The target."""
        return self.__dict__["_target"]

    def build(self, streams: Sequence[Streams], device: str) -> TargetProblem:
        """Return the problem of `len(streams)` chains, on CPU."""
        return TargetProblem(self.target, streams)
