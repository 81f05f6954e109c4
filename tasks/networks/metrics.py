"""The metrics of `ClassifierObserver`: their names, and scores of pairs of draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.tasks import PREDICTIVE_METRICS, Classification, Metric, unseen_metrics

if TYPE_CHECKING:
    from numpy.typing import NDArray


UNDEFINED = -1
"""The predicted class of an image whose predicted probabilities are not finite."""


def classifier_metrics(
    unseen: Sequence[str] = (), *, last: int | None = 5, train: bool = False, top: bool = False
) -> tuple[Metric, ...]:
    """What `ClassifierObserver` reports, test_error first.

    last   draws whose own accuracies are averaged, as papers do; none: all that are averaged, and they come first
    train  whether accuracies on the training images are measured too
    top    whether top-1 and top-5 accuracies are listed
    """
    few, prefix = ("mean over the draws", "") if last is None else (f"mean over the last {last}", f"last{last}_")
    accuracies = [Metric(f"{prefix}test_accuracy", "max", "%", f"test accuracy of a single draw, {few}")]
    if train:
        accuracies += [Metric(f"{prefix}train_accuracy", "max", "%", f"training accuracy of a single draw, {few}")]
    metrics = [
        *PREDICTIVE_METRICS,
        Metric("disagreement", "max", "1", "share of test images that two draws put in other classes, all pairs"),
        Metric("disagreement_between_cycles", "max", "1", "the same for two draws of different cycles"),
    ]
    metrics = [*accuracies, *metrics] if last is None else [*metrics, *accuracies]
    if top:
        metrics += [Metric(f"top{k}", "max", "%", f"top-{k} test accuracy of the posterior mean") for k in (1, 5)]
    return (*metrics, *unseen_metrics(Classification(), unseen))


def disagreements(predicted: NDArray[Any]) -> NDArray[np.float32]:
    """The share of images (S, n) that each two draws put in different classes, (S, S); NaN if one is `UNDEFINED`."""
    shares = np.zeros((len(predicted), len(predicted)), dtype=np.float32)
    for k, row in enumerate(predicted):
        shares[k, :k] = (predicted[:k] != row).mean(axis=1)
    shares[(predicted == UNDEFINED).any(axis=1)] = np.nan
    return shares + shares.T


def mean_disagreements(pairs: NDArray[np.float32], cycle: NDArray[np.int64]) -> dict[str, float | None]:
    """Means of (S, S) over all pairs of draws, and over those of different cycles; None where there are none."""
    upper = np.triu(np.ones(pairs.shape, dtype=bool), 1)
    between = upper & (cycle[:, None] != cycle)
    means = {"disagreement": upper, "disagreement_between_cycles": between}
    return {name: float(pairs[chosen].mean()) if chosen.any() else None for name, chosen in means.items()}
