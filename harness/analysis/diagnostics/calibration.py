"""The quality of predicted probabilities: proper scores, and the gap between confidence and accuracy.

Everywhere p (n, K) are the probabilities of K classes for n inputs, rows summing to 1, and y (n,) the true classes. A
score of probabilities that are not finite is NaN.
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
    return _score(p, (p.argmax(axis=1) != y).mean())


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

    The confidence of an input is its largest probability; bin b holds confidences in [(b-1)/bins, b/bins), and those of
    exactly 1 have a bin of their own, in single precision, as in torchmetrics. (The paper's bins contain their upper
    ends instead.)

    Source: C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On Calibration of Modern Neural Networks", ICML 2017, eq. 3.
    """
    p, y = _checked(probabilities, classes)
    confidence = p.max(axis=1)
    right = p.argmax(axis=1) == y
    k, width = np.arange(bins + 1, dtype=np.float32), np.float32(1 / bins)
    edges = np.where(k < (bins + 1) // 2, width * k, 1 - width * (bins - k))  # to the bit those of torch.linspace
    bin_of = np.searchsorted(edges, confidence.astype(np.float32), side="right")
    gap = np.bincount(bin_of, weights=right - confidence)
    return _score(p, np.abs(gap).sum() / len(y))


def top_accuracy(probabilities: ArrayLike, classes: ArrayLike, k: int) -> float:
    """Return the share of inputs whose true class is among the k most probable; among equals, the true one is last."""
    p, y = _checked(probabilities, classes)
    return _score(p, ((p >= _of_truth(p, y)[:, None]).sum(axis=1) <= k).mean())


def aurc(probabilities: ArrayLike, classes: ArrayLike) -> float:
    """Return the area under the risk-coverage curve, as a mean.

    The curve is the error rate of the k most confident inputs against coverage k/n. It runs from coverage 1/n to 1, by
    the trapezoidal rule, and the area is divided by 1 - 1/n. Inputs of equal confidence count with their expectation
    over all orders.

    Source: Y. Geifman, R. El-Yaniv, "Selective Classification for Deep Neural Networks", NeurIPS 2017.
    """
    p, y = _checked(probabilities, classes)
    risks = 1 - _selective_accuracies(p, y)
    return _score(p, np.convolve(risks, [0.5, 0.5], "valid").mean() if len(risks) > 1 else risks[0])


def selective_accuracy(probabilities: ArrayLike, classes: ArrayLike, percent: int = COVERAGE) -> float:
    """Return the accuracy on the most confident `percent` of the inputs, whose number is rounded up.

    Inputs of equal confidence count as in `aurc`.
    """
    p, y = _checked(probabilities, classes)
    return _score(p, _selective_accuracies(p, y)[-(-percent * len(y) // 100) - 1])


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


def _score(p: Array, value: float) -> float:
    return float(value) if np.isfinite(p).all() else np.nan


def _of_truth(p: Array, y: Classes) -> Array:
    return p[np.arange(len(y)), y]
