"""The potential as samplers see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from harness.task import Batch, Problem


class BoundPotential:
    """The potential of one step: a `Problem` on its current batch, as samplers see it."""

    def __init__(self, problem: Problem, terms: int, batch: Batch | None = None) -> None:
        self._problem = problem
        self.terms = terms
        self._batch = batch

    def bind(self, batch: Batch | None) -> None:
        """Make it about another batch."""
        self._batch = batch

    def on(self, batch: Batch | None) -> BoundPotential:
        """The same potential on another batch, leaving this one as it is."""
        return BoundPotential(self._problem, self.terms, batch)

    def grad(self, x: Tensor) -> Tensor:
        """grad U (C, D) at x."""
        return self._problem.gradient(x, self._batch)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """U (C,) and grad U (C, D) at x."""
        return self._problem.energy_and_gradient(x, self._batch)

    def scores(self, x: Tensor) -> Tensor:
        """Gradients of the likelihood terms of the batch (C, n, D) at x."""
        return self._problem.scores(x, self._batch)

    def metric(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse metric (C, D, D) and its divergence (C, D) at x."""
        return self._problem.metric(x)

    @property
    def full(self) -> BoundPotential:
        """U on all the data."""
        return BoundPotential(self._problem, self.terms)


class CountingPotential(BoundPotential):
    """A bound potential that counts the gradients asked of it, those on the batch and those on all the data."""

    def __init__(self, problem: Problem, terms: int, batch: Batch | None = None) -> None:
        super().__init__(problem, terms, batch)
        self.calls = 0
        self._full: CountingPotential | None = None

    def grad(self, x: Tensor) -> Tensor:
        """grad U (C, D) at x, counted."""
        self.calls += 1
        return self._problem.gradient(x, self._batch)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """U (C,) and grad U (C, D) at x, counted."""
        self.calls += 1
        return self._problem.energy_and_gradient(x, self._batch)

    def scores(self, x: Tensor) -> Tensor:
        """Gradients of the likelihood terms (C, n, D) at x, counted as one."""
        self.calls += 1
        return self._problem.scores(x, self._batch)

    @property
    def full(self) -> CountingPotential:
        """U on all the data, counted apart."""
        if self._full is None:
            self._full = CountingPotential(self._problem, self.terms)
        return self._full

    def take_counts(self) -> tuple[int, int]:
        """Calls on the batch and on all the data since the last time; counting starts anew."""
        full = self._full.take_counts()[0] if self._full else 0
        calls, self.calls = self.calls, 0
        return calls, full
