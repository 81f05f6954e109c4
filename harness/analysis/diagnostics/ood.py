"""Whether a score of uncertainty distinguishes unseen inputs from seen ones.

`seen` (n,) and `unseen` (m,) are scores, larger for inputs that look less like the training data: the entropy of the
predictive distribution, or minus its largest probability. The order in which equal scores are given does not matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def entropy(probabilities: ArrayLike) -> Array:
    """Return -sum_k p_k log p_k in nats, over the classes on the last axis; 0 log 0 = 0. It is at most log K."""
    p = np.asarray(probabilities, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(-np.where(p > 0, p * np.log(p), 0 * p).sum(axis=-1))


def auroc(seen: ArrayLike, unseen: ArrayLike) -> float:
    """Return the probability that an unseen input scores higher than a seen one: the area under the ROC curve.

    Equal scores count half.
    """
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(*_labelled(seen, unseen)))


def aupr(seen: ArrayLike, unseen: ArrayLike) -> float:
    """Return the area under the precision-recall curve for finding the unseen inputs, by steps (average precision).

    By chance it is their share m / (n + m). Source: D. Hendrycks, K. Gimpel, "A Baseline for Detecting Misclassified
    and Out-of-Distribution Examples in Neural Networks", ICLR 2017.
    """
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(*_labelled(seen, unseen)))


def fpr95(seen: ArrayLike, unseen: ArrayLike) -> float:
    """Return the share of unseen inputs that are accepted if at least 95 % of the seen ones are.

    An input is accepted if it scores no more than the lowest threshold that accepts that many of the seen ones. Source:
    S. Liang, Y. Li, R. Srikant, "Enhancing the Reliability of Out-of-distribution Image Detection in Neural Networks",
    ICLR 2018.
    """
    known, unknown = _finite(seen), _finite(unseen)
    return float((unknown <= np.sort(known)[int(np.ceil(0.95 * len(known))) - 1]).mean())


def _labelled(seen: ArrayLike, unseen: ArrayLike) -> tuple[NDArray[np.bool_], Array]:
    """Return the labels, True for unseen, and the scores."""
    known, unknown = _finite(seen), _finite(unseen)
    return np.repeat([False, True], [len(known), len(unknown)]), np.concatenate([known, unknown])


def _finite(scores: ArrayLike) -> Array:
    x = np.asarray(scores, dtype=np.float64)
    if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
        raise ValueError(f"scores are a row of finite numbers, at least one; got shape {x.shape}")
    return x
