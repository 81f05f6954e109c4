"""Law 10: bad hyperparameters are refused, and a sampler stays finite on toy targets in their dtype."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from harness import Sampler, UsageError
from harness.contracts import Field, schema
from harness.engine import named
from harness.tasks import Problem, Streams
from plugins.checking.gaussian import Batch, GaussianProblem, GaussianTask
from plugins.checking.law import Broken, Law, all_finite, finish, loop, safe_x, trajectory

HIDDEN = 4
STEPS = 100


class SmallNetworkProblem(GaussianProblem):
    """A regression by one hidden layer of tanh units, 16 points, prior N(0, I): not convex, and by autograd."""

    def __init__(self, streams: Sequence[Streams]) -> None:
        super().__init__(torch.ones(3 * HIDDEN), streams=streams)

    def initial(self) -> Tensor:
        """Return standard normal starts."""
        return super().initial().to(torch.float32)

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return U (C,)."""
        x = torch.linspace(-2, 2, 16, dtype=theta.dtype)
        slope, shift, weight = theta.chunk(3, dim=1)
        hidden = torch.tanh(slope[:, :, None] * x + shift[:, :, None])
        fitted = (weight[:, :, None] * hidden).sum(1)
        return (fitted - torch.sin(2 * x)).square().sum(1) / 0.02 + theta.square().sum(1) / 2

    # Gaussian problems have a formula for their gradient; this one uses automatic differentiation.
    energy_and_gradient = Problem.energy_and_gradient
    gradient = Problem.gradient


@dataclass(frozen=True, kw_only=True)
class SmallNetworkTask(GaussianTask):
    """The small network as a task, in float32."""

    dtype: ClassVar[str] = "float32"

    def build(self, streams: Sequence[Streams], device: str) -> SmallNetworkProblem:
        """Return the problem of `len(streams)` chains."""
        return SmallNetworkProblem(streams)


class UnusedProblem(GaussianProblem):
    """A Gaussian in the first coordinate. The gradient of the second is 0, as for a weight that no input reaches."""

    def __init__(self, streams: Sequence[Streams]) -> None:
        super().__init__(torch.tensor([1.0, 0.0], dtype=torch.float64), streams=streams)

    def initial(self) -> Tensor:
        """Return ones."""
        return torch.ones(len(self.streams), self.dim, dtype=torch.float64)

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return the identity."""
        return torch.ones_like(theta).diag_embed(), torch.zeros_like(theta)


@dataclass(frozen=True, kw_only=True)
class UnusedTask(GaussianTask):
    """The Gaussian with an unused coordinate, as a task."""

    def build(self, streams: Sequence[Streams], device: str) -> UnusedProblem:
        """Return the problem of `len(streams)` chains."""
        return UnusedProblem(streams)


def check(sampler: Sampler) -> None:
    """Check that every field refuses values outside its range, and that the sampler stays finite and in its dtype."""
    for spec in schema(type(sampler)):
        for bad in _bad_values(spec):
            _refuses(sampler, spec, bad)
    gaussian = GaussianTask(variance=0.5)
    stable = safe_x(sampler, 0.1) / gaussian.curvature()
    for name, task, h in (
        ("Gaussian", gaussian, stable),
        ("Gaussian with a coordinate on which U does not depend", UnusedTask(), stable),
        ("small network", SmallNetworkTask(), 1e-5),
    ):
        running = finish(loop(sampler, task, trajectory(np.full(STEPS, h), 1.0, burn_in=STEPS // 2), 4))
        if not all_finite([running.theta, *running.state.values()]):
            raise Broken(f"not finite after {STEPS} steps of h = {h:.3g} on a {name}")
        for leaf, tensor in named(running.theta, running.state).items():
            if tensor.is_floating_point() and tensor.dtype != running.stage.dtype:
                raise Broken(f"{leaf} is {tensor.dtype} after a run in {running.stage.dtype}")


def _refuses(sampler: Sampler, spec: Field, bad: Any) -> None:
    try:
        dataclasses.replace(sampler, **{spec.name: bad})
    except UsageError:
        return
    except Exception as error:  # noqa: BLE001 - for any other error, a user would see a traceback
        raise Broken(f"{spec.name} = {bad!r} raises {type(error).__name__} ({error}), not UsageError") from None
    allowed = spec.allowed or ", ".join(spec.choices) or spec.type
    raise Broken(f"{spec.name} = {bad!r} is accepted; it declares {allowed}")


def _bad_values(spec: Field) -> Iterator[Any]:
    if spec.type in ("float", "int"):
        yield from ("many", float("nan"), float("inf"))
    if spec.choices:
        yield "none of these"
    if spec.allowed:
        low, high = (float(part) for part in spec.allowed[1:-1].split(","))
        if np.isfinite(low):
            yield low if spec.allowed[0] == "(" else low - 1
        if np.isfinite(high):
            yield high if spec.allowed[-1] == ")" else high + 1


LAW = Law(
    10, "hyperparameters", check,
    "a field without its range, a __post_init__ that does not call the base's, a constant tensor in float64, or "
    "0/0 where a gradient is 0",
)  # fmt: skip
