"""The metrics of a classifier: their names are shared by all tasks that `ClassifierObserver` watches."""

from __future__ import annotations

from collections.abc import Sequence

from harness import Metric

LOW_ENTROPY = 0.5
"""Nats below which a prediction counts as certain; ten classes at equal odds have 2.3."""

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
    own = "mean over the draws"
    few, prefix = (own, "") if last is None else (f"mean over the last {last}", f"last{last}_")
    accuracies = [Metric(f"{prefix}test_accuracy", "max", "%", f"test accuracy of a single draw, {few}")]
    if train:
        accuracies += [Metric(f"{prefix}train_accuracy", "max", "%", f"training accuracy of a single draw, {few}")]
    found = [
        Metric("test_error", "min", "%", "test error of the posterior mean of the predicted probabilities"),
        Metric("nll", "min", "nats", "negative log-likelihood of a test image under the posterior mean"),
        Metric("ece", "min", "1", "expected calibration error of the posterior mean, 15 bins of equal width"),
        Metric("brier", "min", "1", "Brier score of the posterior mean, summed over the classes"),
        Metric("single_test_error", "min", "%", f"test error of a single draw, {own}"),
        Metric("single_nll", "min", "nats", f"negative log-likelihood of a test image under a single draw, {own}"),
        Metric("disagreement", "max", "1", "share of test images that two draws put in other classes, all pairs"),
        Metric("disagreement_between_cycles", "max", "1", "the same for two draws of different cycles"),
    ]
    found = [*accuracies, *found] if last is None else [*found, *accuracies]
    if top:
        found += [Metric(f"top{k}", "max", "%", f"top-{k} test accuracy of the posterior mean") for k in (1, 5)]
    for name in unseen:
        found += _unseen_metrics(name)
    return tuple(found)


def _unseen_metrics(name: str) -> list[Metric]:
    """How the posterior mean tells the unseen set `name` from the test images."""
    found = [
        Metric(f"entropy_{name}", "max", "nats", f"predictive entropy on {name}, mean"),
        Metric(f"low_entropy_mass_{name}", "min", "1", f"share of {name} with an entropy below {LOW_ENTROPY} nats"),
    ]
    for suffix, score in SCORES.items():
        found += [
            Metric(f"auroc{suffix}_{name}", "max", "1", f"{name} against the test images by {score}: area under ROC"),
            Metric(f"aupr{suffix}_{name}", "max", "1", f"the same: average precision in finding {name}"),
            Metric(f"fpr95{suffix}_{name}", "min", "1", f"share of {name} accepted with 95 % of the test images"),
        ]
    return found
