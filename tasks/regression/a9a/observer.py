"""The observer of a9a: what the logistic one says, and how well the posterior mean predictive does on the test set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness import Outcome, diagnostics, finite_or_none, pick
from tasks.regression.a9a.task import held_out, signed_design
from tasks.regression.laplace import gradient, laplace
from tasks.regression.observer import LogisticObserver

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

PREDICTIVE_DRAWS = 1_000
TEMPERATURE_DRAWS = 500
"""A gradient at one draw is a pass through the data."""

CHUNK = 100
"""Draws predicted with at once: 13 MB of logits."""


class A9aObserver(LogisticObserver):
    """As `LogisticObserver`, with test_nll and test_accuracy; temperatures from fewer draws."""

    def outcome(self) -> Outcome:
        plain = super().outcome()
        if not self.seen:
            return plain
        predicted = self._predicted()
        return Outcome({**plain.metrics, **{k: finite_or_none(v) for k, v in predicted.items()}}, plain.curves)

    def _picked(self, n: int) -> Array:
        flat = self.draws[: self.seen].reshape(-1, self.task.dim())
        return pick(flat, self.weights[: self.seen].ravel(), min(len(flat), n))

    def _predicted(self) -> dict[str, float]:
        rows, positive = held_out()
        probability = predictive(rows, self._picked(PREDICTIVE_DRAWS))
        right = np.where(positive, probability, 1 - probability)
        with np.errstate(divide="ignore"):
            return {"test_nll": float(-np.log(right).mean()), "test_accuracy": float((right > 0.5).mean())}

    def _temperatures(self) -> dict[str, float | None]:
        chosen, centre = self._picked(TEMPERATURE_DRAWS), self.errors.moments.mean
        design = signed_design()
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = np.concatenate([gradient(design, part) for part in np.array_split(chosen, -(-len(chosen) // 50))])
            along = diagnostics.directional_temperatures(chosen, slopes, centre, laplace(design).eigenvectors)
            mean = diagnostics.configurational_temperature(chosen, slopes, centre)
        return {"temperature": float(mean), "temperature_min": along.min(), "temperature_max": along.max()}


def predictive(rows: Array, draws: Array) -> Array:
    """The mean over draws (S, D) of the probability that each row (M, D) is positive: (M,)."""
    total = np.zeros(len(rows))
    with np.errstate(over="ignore"):
        for start in range(0, len(draws), CHUNK):
            total += (1 / (1 + np.exp(-rows @ draws[start : start + CHUNK].T))).sum(axis=1)
    return total / len(draws)
