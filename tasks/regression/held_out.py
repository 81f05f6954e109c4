"""The observer of posteriors with a truth and a test set: errors of moments, and scores of the mean predictive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.tasks import Metric, Outcome, finite_or_none
from tasks.regression.series import SeriesObserver

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

HELD_OUT_METRICS = (
    Metric("test_nll", "min", "nat", "negative log likelihood of a test row under the posterior mean predictive"),
    Metric("test_accuracy", "max", "1", "share of test rows that the posterior mean predictive gets right"),
)
PREDICTIVE_DRAWS = 1_000


class HeldOutObserver(SeriesObserver):
    """`SeriesObserver` with `HELD_OUT_METRICS`, of the posterior mean predictive by up to 1,000 draws evenly spaced.

    probabilities  draws (S, D) -> the mean over the draws of the probabilities of the classes of the test rows, (M, K)
    labels         the classes of the test rows, (M,)
    """

    def __init__(
        self, *given: Any, probabilities: Callable[[Array], Array], labels: NDArray[np.int64], **options: Any
    ) -> None:
        super().__init__(*given, **options)
        self.probabilities, self.labels = probabilities, labels

    def outcome(self) -> Outcome:
        plain = super().outcome()
        if not self.seen:
            return plain
        predicted = self.probabilities(self.picked(PREDICTIVE_DRAWS))
        scores: dict[str, float | None] = {"test_nll": None, "test_accuracy": None}
        if np.isfinite(predicted).all():
            with np.errstate(divide="ignore"):
                nll = -np.log(predicted[np.arange(len(self.labels)), self.labels]).mean()
            right = predicted.argmax(axis=1) == self.labels
            scores = {"test_nll": finite_or_none(float(nll)), "test_accuracy": float(right.mean())}
        return Outcome({**plain.metrics, **scores}, plain.curves)
