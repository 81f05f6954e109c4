"""Law 14: on U(theta - a) the path is the path on U, moved by a: no step depends on where theta is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness import Sampler, param
from harness.tasks import Streams
from plugins.checking.gaussian import Batch, GaussianProblem, GaussianTask
from plugins.checking.law import Broken, Law, distance, path_of, trajectory, varying

PLACE = 2.0**20
"""a, in every coordinate: beyond any box that a sampler might confine parameters to."""

TOLERANCE = 1e-6
"""A coordinate near PLACE is rounded to 1e-10, and twelve stable steps do not amplify that much."""

CHAINS = 4
STEPS = 12


class MovedProblem(GaussianProblem):
    """The problem of U(theta - a), whose chains start around a."""

    centre = 0.0

    def initial(self) -> Tensor:
        """Return starts (C, D) from N(a, spread / lambda)."""
        return super().initial() + self.centre

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return U (C,)."""
        return super().energy(theta - self.centre, batch)

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return grad U (C, D)."""
        return super().gradient(theta - self.centre, batch)


@dataclass(frozen=True, kw_only=True)
class MovedTask(GaussianTask):
    """The Gaussian with its mean at `centre` in every coordinate."""

    centre: float = param(0.0, meaning="a, the mean of every coordinate")

    def build(self, streams: Sequence[Streams], device: str) -> MovedProblem:
        """Return the problem of `len(streams)` chains, on CPU."""
        curvature = torch.tensor(self.curvatures, dtype=torch.float64)
        problem = MovedProblem(curvature, variance=self.variance, spread=self.spread, streams=streams)
        problem.centre = self.centre
        return problem


def check(sampler: Sampler) -> None:
    """Check that the path moves with the target, under varying step sizes and stochastic gradients."""
    here, there = (MovedTask(variance=0.5, centre=centre) for centre in (0.0, PLACE))
    path = trajectory(varying(sampler, here, STEPS), 1.0)
    expected = path_of(sampler, here, path, CHAINS)
    gap = distance(path_of(sampler, there, path, CHAINS) - PLACE, expected)
    if not gap < TOLERANCE:
        raise Broken(f"moved by a = {PLACE:g}, the path on U(theta - a) is off by {gap:.2g} (relative)")


LAW = Law(
    14, "translation", check,
    "positions clipped, wrapped or reflected, a weight decay beside the prior, or a constant that stands for a place",
)  # fmt: skip
