"""Posteriors whose sum over all the data is computed for all chains at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.tasks import DataProblem

if TYPE_CHECKING:
    from torch import Tensor

    Batch = dict[str, Tensor]


class AllRowsProblem(DataProblem):
    """A posterior that states U on all the data by `full`, with one matrix product for all chains.

    It is several times as fast as chain by chain. There the bits, not the numbers, of a chain depend on how many chains
    advance together; on minibatches they do not.
    """

    def full(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D) on all the data."""
        raise NotImplementedError(f"{type(self).__name__} has no full")

    def full_gradient(self, theta: Tensor) -> Tensor:
        """Return grad U (C, D) on all the data."""
        return self.full(theta)[1]

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        return super().energy(theta, batch) if batch is not None else self.full(theta)[0]

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        return super().gradient(theta, batch) if batch is not None else self.full_gradient(theta)

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        return super().energy_and_gradient(theta, batch) if batch is not None else self.full(theta)
