"""The metrics of a classifier of images: their names, and scores of predictive distributions and of pairs of draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import diagnostics
from harness.tasks import PREDICTIVE_METRICS, Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LOW_ENTROPY = 0.5
"""Nats below which a prediction counts as certain; ten classes at equal odds have 2.3."""

UNDEFINED = -1
"""The predicted class of an image whose predicted probabilities are not finite."""

SCORES = {"": "the predictive entropy", "_maxprob": "minus the largest probability"}
"""Suffix of a detection metric -> the score that it judges."""


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
    for name in unseen:
        metrics += _unseen_metrics(name)
    return tuple(metrics)


def _unseen_metrics(name: str) -> list[Metric]:
    """How the posterior mean tells the unseen set `name` from the test images."""
    metrics = [
        Metric(f"entropy_{name}", "max", "nats", f"predictive entropy on {name}, mean"),
        Metric(f"low_entropy_mass_{name}", "min", "1", f"share of {name} with an entropy below {LOW_ENTROPY} nats"),
    ]
    for suffix, score in SCORES.items():
        metrics += [
            Metric(f"auroc{suffix}_{name}", "max", "1", f"{name} against the test images by {score}: area under ROC"),
            Metric(f"aupr{suffix}_{name}", "max", "1", f"the same: average precision in finding {name}"),
            Metric(f"fpr95{suffix}_{name}", "min", "1", f"share of {name} accepted with 95 % of the test images"),
        ]
    return metrics


def unseen_values(mean: Mapping[str, Array], entropies: Mapping[str, Array]) -> dict[str, float | None]:
    """How well the posterior mean (n, K) tells each unseen set from the test images, by entropy and largest p.

    Nothing is said about a set whose predictions are not finite.
    """
    values: dict[str, float | None] = {}
    for name in (name for name in mean if name != "test" and np.isfinite([mean[name].sum(), mean["test"].sum()]).all()):
        values[f"entropy_{name}"] = float(entropies[name].mean())
        values[f"low_entropy_mass_{name}"] = float((entropies[name] < LOW_ENTROPY).mean())
        scores = {"": (entropies["test"], entropies[name]), "_maxprob": (-mean["test"].max(1), -mean[name].max(1))}
        for suffix, (seen, unseen) in scores.items():
            values[f"auroc{suffix}_{name}"] = diagnostics.ood.auroc(seen, unseen)
            values[f"aupr{suffix}_{name}"] = aupr(seen, unseen)
            values[f"fpr95{suffix}_{name}"] = fpr95(seen, unseen)
    return values


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


def aupr(seen: Array, unseen: Array) -> float:
    """Return the area under the precision-recall curve for finding the unseen inputs, by steps (average precision).

    By chance it is their share m / (n + m). Source: D. Hendrycks, K. Gimpel, "A Baseline for Detecting Misclassified
    and Out-of-Distribution Examples in Neural Networks", ICLR 2017.
    """
    from sklearn.metrics import average_precision_score

    labels = np.repeat([False, True], [len(seen), len(unseen)])
    return float(average_precision_score(labels, np.concatenate([seen, unseen])))


def fpr95(seen: Array, unseen: Array) -> float:
    """Return the share of unseen inputs that are accepted if at least 95 % of the seen ones are.

    An input is accepted if it scores no more than the lowest threshold that accepts that many of the seen ones. Source:
    S. Liang, Y. Li, R. Srikant, "Enhancing the Reliability of Out-of-distribution Image Detection in Neural Networks",
    ICLR 2018.
    """
    threshold = np.sort(seen)[int(np.ceil(0.95 * len(seen))) - 1]
    return float((np.asarray(unseen) <= threshold).mean())
