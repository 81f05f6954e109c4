"""The quality of predicted probabilities: proper scores, and the gap between confidence and accuracy.

Everywhere p (n, K) are the probabilities of K classes for n inputs, rows summing to 1, and y (n,) the true classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Classes = NDArray[np.int64]

BINS = 15
COVERAGE = 80
"""Percentage of the inputs, the most confident ones, whose accuracy is the selective accuracy."""


def error_rate(probabilities: ArrayLike, classes: ArrayLike) -> float:
    """Return the share of inputs whose most probable class, the lowest among equals, is not the true one."""
    p, y = _checked(probabilities, classes)
    return float((p.argmax(axis=1) != y).mean())


def nll(probabilities: ArrayLike, classes: ArrayLike) -> float:
    """Return the negative log-likelihood per input in nats, -mean_i log p_i[y_i].

    It is inf if a true class has probability 0.
    """
    p, y = _checked(probabilities, classes)
    with np.errstate(divide="ignore"):
        return float(-np.log(_of_truth(p, y)).mean())


def lppd(probabilities: ArrayLike, classes: ArrayLike) -> float:
    """Return the log pointwise predictive density, mean_i log p_i[y_i] with p the mean over the draws: minus `nll`."""
    return -nll(probabilities, classes)


def brier(probabilities: ArrayLike, classes: ArrayLike) -> float:
    """Return the Brier score in [0, 2]: mean_i sum_k (p_ik - [y_i = k])^2.

    Source: G. W. Brier, "Verification of forecasts expressed in terms of probability", 1950.
    """
    p, y = _checked(probabilities, classes)
    return float(((p**2).sum(axis=1) - 2 * _of_truth(p, y) + 1).mean())


def ece(probabilities: ArrayLike, classes: ArrayLike, bins: int = BINS) -> float:
    """Return the expected calibration error: sum_b n_b/n |accuracy_b - confidence_b| over `bins` bins of equal width.

    The confidence of an input is its largest probability; bin b holds confidences in ((b-1)/bins, b/bins].

    Source: C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On Calibration of Modern Neural Networks", ICML 2017, eq. 3.
    """
    p, y = _checked(probabilities, classes)
    confidence = p.max(axis=1)
    right = p.argmax(axis=1) == y
    bin_of = np.searchsorted(np.arange(1, bins) / bins, confidence)
    gap = np.bincount(bin_of, weights=right - confidence, minlength=bins)
    return float(np.abs(gap).sum() / len(y))


def top_accuracy(probabilities: ArrayLike, classes: ArrayLike, k: int) -> float:
    """Return the share of inputs whose true class is among the k most probable; among equals, the true one is last."""
    p, y = _checked(probabilities, classes)
    return float(((p >= _of_truth(p, y)[:, None]).sum(axis=1) <= k).mean())


def aurc(probabilities: ArrayLike, classes: ArrayLike) -> float:
    """Return the area under the risk-coverage curve, as a mean.

    The curve is the error rate of the k most confident inputs against coverage k/n. It runs from coverage 1/n to 1, by
    the trapezoidal rule, and the area is divided by 1 - 1/n. Inputs of equal confidence count with their expectation
    over all orders.

    Source: Y. Geifman, R. El-Yaniv, "Selective Classification for Deep Neural Networks", NeurIPS 2017.
    """
    risks = 1 - _selective_accuracies(*_checked(probabilities, classes))
    return float(np.convolve(risks, [0.5, 0.5], "valid").mean() if len(risks) > 1 else risks[0])


def selective_accuracy(probabilities: ArrayLike, classes: ArrayLike, percent: int = COVERAGE) -> float:
    """Return the accuracy on the most confident `percent` of the inputs, whose number is rounded up.

    Inputs of equal confidence count as in `aurc`.
    """
    p, y = _checked(probabilities, classes)
    return float(_selective_accuracies(p, y)[-(-percent * len(y) // 100) - 1])


def _selective_accuracies(p: Array, y: Classes) -> Array:
    """Return the accuracy of the k most confident inputs, for k = 1 to n."""
    _, level, counts = np.unique(-p.max(axis=1), return_inverse=True, return_counts=True)
    expected = np.bincount(level, weights=p.argmax(axis=1) == y) / counts
    return expected.repeat(counts).cumsum() / np.arange(1, len(y) + 1)


def _checked(probabilities: ArrayLike, classes: ArrayLike) -> tuple[Array, Classes]:
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(classes, dtype=np.int64)
    if p.ndim != 2 or y.shape != p.shape[:1] or not len(y):
        raise ValueError(f"probabilities (n, K) and classes (n,) are needed, got {p.shape} and {y.shape}")
    return p, y


def _of_truth(p: Array, y: Classes) -> Array:
    return p[np.arange(len(y)), y]
