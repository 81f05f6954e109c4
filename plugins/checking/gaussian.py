"""The Gaussian on which samplers are tested: everything about it is known, and every operation is elementwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness import Trajectory, linear, param
from harness.contracts import load_states, states
from harness.tasks import Cost, Metric, Observer, Outcome, Problem, Protocol, Streams, Task

Batch = dict[str, Tensor]

TERMS = 10
"""Terms of the targets on which a sampler that needs their number has its law; a wrong power of it shows."""


def axes_of(dim: int) -> Tensor:
    """Return orthogonal axes (D, D) along which no entry of a precision matrix is small."""
    if dim == 2:
        return torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64) / 2**0.5
    return torch.linalg.qr(torch.from_numpy(np.random.default_rng(0).standard_normal((dim, dim))))[0]


class GaussianProblem(Problem):
    """U(theta) = c sum_i (lambda_i x_i^2 / 2 + b_i x_i), x = theta - a; b ~ N(0, V I), 0 on all the data.

    `curvature` is lambda, (D,) or one row for each chain (C, D). A minibatch is {"slope": b}. Without `streams` nothing
    is drawn, and the caller supplies the batches. `axes` are those of `harness.linear.QuadraticPotential`.
    """

    def __init__(
        self,
        curvature: Tensor,
        *,
        scale: float = 1.0,
        variance: float = 0.0,
        spread: float = 1.0,
        centre: float = 0.0,
        streams: Sequence[Streams] = (),
        axes: Tensor | None = None,
    ) -> None:
        self.dim = curvature.shape[-1]
        self.layout = linear.QuadraticPotential(curvature).layout
        self.curvature = curvature
        self.scale = scale
        self.variance = variance
        self.spread = spread
        self.centre = centre
        self.streams = streams
        self.axes = axes
        self.order = [s.numpy("order") for s in streams] if variance else []

    def initial(self) -> Tensor:
        """Return draws from N(a, spread / lambda), (C, D)."""
        normals = [torch.randn(self.dim, generator=s.torch("init"), dtype=torch.float64) for s in self.streams]
        start = torch.stack(normals) * (self.spread / self.curvature).sqrt()
        return self.centre + (start if self.axes is None else start @ self.axes.mT)

    def draw_batches(self, steps: int) -> Batch:
        """Return the slopes b of the next steps, (steps, C, D)."""
        if not self.order:
            return {}
        size = (steps, self.dim)
        drawn = [torch.from_numpy(g.standard_normal(size)) for g in self.order]
        return {"slope": self.variance**0.5 * torch.stack(drawn, dim=1).to(self.curvature.dtype)}

    def batches(self, steps: int) -> list[Batch | None]:
        """Return the batch of each of the next steps; None if U is exact."""
        drawn = self.draw_batches(steps)
        return [{"slope": slope} for slope in drawn["slope"]] if drawn else [None] * steps

    def _quadratic(self, batch: Batch | None) -> linear.QuadraticPotential:
        return linear.QuadraticPotential(self.curvature, None if batch is None else batch["slope"], self.axes)

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return U (C,)."""
        return self.scale * self._quadratic(batch).energy(theta - self.centre)

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return grad U = c (lambda x + b), (C, D)."""
        return self.scale * self._quadratic(batch).grad(theta - self.centre)

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D)."""
        return self.energy(theta, batch), self.gradient(theta, batch)

    def scores(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return the gradients of the terms, (C, D, D), as `harness.linear.QuadraticPotential` does."""
        return self.gradient(theta, batch).diag_embed()

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inverse of U's Hessian, and its divergence, 0."""
        return linear.QuadraticPotential(self.scale * self.curvature, axes=self.axes).metric(theta)

    def gauss_newton(
        self, theta: Tensor, *, last_layer: bool, full: bool
    ) -> tuple[Mapping[int, Sequence[Tensor]], float]:
        """Return U's Hessian as one block."""
        quadratic = linear.QuadraticPotential(self.scale * self.curvature, axes=self.axes)
        return quadratic.gauss_newton(theta, last_layer=last_layer, full=full)

    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> Recorder:
        """Return an observer that keeps every draw."""
        return Recorder()

    def state(self) -> dict[str, Tensor]:
        """Return the states of the generators from which the slopes come."""
        return {"order": states(self.order)} if self.order else {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Set the generators to the states in `state`."""
        if self.order:
            load_states(self.order, state["order"])


@dataclass(frozen=True, kw_only=True)
class GaussianTask(Task):
    """The Gaussian as a task, on which the harness's own loop can run."""

    protocols: ClassVar[Sequence[Protocol]] = ()
    metrics: ClassVar[Sequence[Metric]] = ()
    provides: ClassVar[frozenset[str]] = linear.QuadraticPotential.provides

    curvatures: tuple[float, ...] = param((0.5, 1.0, 2.0), meaning="lambda, eigenvalues of the Hessian")
    scale: float = param(1.0, "(0, inf)", "c, multiplies U")
    variance: float = param(0.0, "[0, inf)", "V, variance of each coordinate of grad U / c")
    spread: float = param(1.0, "[0, inf)", "chains start at N(a, spread / lambda)")
    centre: float = param(0.0, meaning="a, the mean of every coordinate")
    dense: bool = param(False, meaning="whether the Hessian has the axes of `axes_of`, not those of the coordinates")

    def dim(self) -> int:
        """Return the number of eigenvalues."""
        return len(self.curvatures)

    def curvature(self) -> float:
        """Return c times the largest eigenvalue."""
        return self.scale * max(self.curvatures)

    def build(self, streams: Sequence[Streams], device: str) -> GaussianProblem:
        """Return the problem of `len(streams)` chains, on CPU."""
        curvature = torch.tensor(self.curvatures, dtype=torch.float64)
        return GaussianProblem(
            curvature, scale=self.scale, variance=self.variance, spread=self.spread, centre=self.centre,
            streams=streams, axes=axes_of(self.dim()) if self.dense else None,
        )  # fmt: skip


class Recorder(Observer):
    """An observer that keeps every draw and its weight, in order."""

    def __init__(self) -> None:
        self.blocks: list[Tensor] = []
        self.weights: list[Tensor] = []

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        """Keep a block of draws (B, C, D) and weights (B, C)."""
        self.blocks.append(draws)
        self.weights.append(weights)

    def draws(self) -> Tensor:
        """Return all draws, (B, C, D), or (0, 0, 0) if the run diverged before the first."""
        return torch.cat(self.blocks) if self.blocks else torch.empty((0, 0, 0))

    def outcome(self) -> Outcome:
        """Return no metrics."""
        return Outcome(metrics={})

    def state(self) -> dict[str, Tensor]:
        """Return an empty state, because draws are not part of a checkpoint."""
        return {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing, because the state is empty."""
