"""Distances between two samples, and of predicted probabilities from those of a reference, such as long HMC.

Those of probabilities p and q (n, K) of K classes for n inputs are from P. Izmailov, S. Vikram, M. D. Hoffman,
A. G. Wilson, "What Are Bayesian Neural Network Posteriors Really Like?", ICML 2021, and the code of the NeurIPS 2021
competition (izmailovpavel/neurips_bdl_starter_kit, metrics.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from harness.analysis.diagnostics.arrays import Array


def wasserstein2(x: ArrayLike, y: ArrayLike) -> float:
    """Return W2 = sqrt(min over pairings of the mean of |x_i - y_s(i)|^2) between samples (n, D), exactly.

    It takes O(n^3) time and n^2 memory: thin to about 1,000 draws. It is positive even between two exact samples of one
    distribution: print that baseline beside it. Raises ValueError unless both samples are finite and of one shape.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.ndim != 2 or a.shape != b.shape or not len(a):
        raise ValueError(f"both samples must have one shape (n, D), got {a.shape} and {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("both samples must be finite")
    squared = cdist(a, b, "sqeuclidean")
    return float(np.sqrt(squared[linear_sum_assignment(squared)].mean()))


def agreement(probabilities: ArrayLike, reference: ArrayLike) -> float:
    """Return the share of inputs for which both have the same most probable class; NaN if a number is not finite."""
    p, q = _checked(probabilities, reference)
    return float((p.argmax(axis=1) == q.argmax(axis=1)).mean()) if np.isfinite(p + q).all() else np.nan


def total_variation(probabilities: ArrayLike, reference: ArrayLike) -> float:
    """Return the total variation distance in [0, 1], mean_i sum_k |p_ik - q_ik| / 2."""
    p, q = _checked(probabilities, reference)
    return float(np.abs(p - q).sum(axis=1).mean() / 2)


def _checked(probabilities: ArrayLike, reference: ArrayLike) -> tuple[Array, Array]:
    p, q = np.asarray(probabilities, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if p.ndim != 2 or p.shape != q.shape or not len(p):
        raise ValueError(f"two arrays (n, K) of one shape are needed, got {p.shape} and {q.shape}")
    return p, q
