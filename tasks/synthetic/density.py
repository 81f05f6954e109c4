"""Densities in closed form with noise on their gradient: what their potentials share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness import ChainSequence, Problem

if TYPE_CHECKING:
    from numpy.random import Generator
    from torch import Tensor

    from harness.contracts.randomness import Streams

    Batch = dict[str, Tensor]

STRETCH = 1000
"""Steps whose gradient noise is drawn at once; another length gives other numbers."""


class DensityProblem(Problem):
    """U(theta) + <tilt, theta>, the tilt N(0, noise^2 I) anew in each step; the full U has no tilt.

    Chains start uniformly on [-box, box]^D. A subclass gives U and grad U as `plain_energy` and `plain_gradient`, each
    chain on its own, so that the bits do not depend on the other chains.
    """

    def __init__(self, dim: int, noise: float, box: float, streams: Sequence[Streams], device: str) -> None:
        self.dim = dim
        self.noise = noise
        self.box = box
        self.streams = list(streams)
        self.device = device
        self.tilts: ChainSequence | None = None
        if noise > 0:
            self.tilts = ChainSequence([s.numpy("order") for s in streams], self._draw_tilts)

    @abstractmethod
    def plain_energy(self, theta: Tensor) -> Tensor:
        """U (C,) without a tilt."""

    @abstractmethod
    def plain_gradient(self, theta: Tensor) -> Tensor:
        """grad U (C, D) without a tilt."""

    def _draw_tilts(self, generator: Generator) -> Tensor:
        import torch

        return torch.from_numpy(self.noise * generator.standard_normal((STRETCH, self.dim)))

    def initial(self) -> Tensor:
        import torch

        rows = [
            torch.rand(self.dim, generator=s.torch("init", self.device), dtype=torch.float64, device=self.device)
            for s in self.streams
        ]
        return self.box * (2 * torch.stack(rows) - 1)

    def draw_batches(self, steps: int) -> Batch:
        return {} if self.tilts is None else {"tilt": self.tilts.take(steps).to(self.device)}

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        value = self.plain_energy(theta)
        return value if batch is None else value + (batch["tilt"] * theta).sum(1)

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        gradient = self.plain_gradient(theta)
        return gradient if batch is None else gradient + batch["tilt"]

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        return self.energy(theta, batch), self.gradient(theta, batch)

    def state(self) -> dict[str, Tensor]:
        return {} if self.tilts is None else self.tilts.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        if self.tilts is not None:
            self.tilts.load(state)
