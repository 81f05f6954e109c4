"""Distances between two samples, and of predicted probabilities from those of a reference, such as long HMC.

Those of probabilities p and q (n, K) of K classes for n inputs are from P. Izmailov, S. Vikram, M. D. Hoffman,
A. G. Wilson, "What Are Bayesian Neural Network Posteriors Really Like?", ICML 2021, and the code of the NeurIPS 2021
competition (izmailovpavel/neurips_bdl_starter_kit, metrics.py).
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from harness.analysis.diagnostics import counting
from harness.analysis.diagnostics.arrays import Array, as_block
from harness.system.cpp import compiled

PRICES = Path(__file__).with_name("assignment.cpp")


def wasserstein2(x: ArrayLike, y: ArrayLike) -> float:
    """Return W2 = sqrt(min over pairings of the mean of |x_i - y_s(i)|^2) between samples (n, D), exactly.

    It takes O(n^3) time and n^2 memory: thin to about 1,000 draws. It is positive even between two exact samples of one
    distribution: print that baseline beside it. Raises ValueError unless both samples are finite and of one shape.
    """
    from scipy.spatial.distance import cdist

    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.ndim != 2 or a.shape != b.shape or not len(a):
        raise ValueError(f"both samples must have one shape (n, D), got {a.shape} and {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("both samples must be finite")
    squared = cdist(a, b, "sqeuclidean")
    return float(np.sqrt(squared[np.arange(len(a)), cheapest_pairing(squared)].mean()))


def cheapest_pairing(cost: Array) -> Array:
    """Return the column of each row, (n,), in a pairing whose sum of costs (n, n) >= 0 is the least.

    SciPy's search is up to eight times as fast on cost + price, where the prices of the columns come from an auction.
    They add the same to all pairings, so the least remains the least, up to rounding.
    """
    from scipy.optimize import linear_sum_assignment

    code, price = compiled(PRICES), np.zeros(len(cost))
    if code is not None:
        counting.call(code.prices, len(cost), np.ascontiguousarray(cost), price)
    return np.asarray(linear_sum_assignment(cost + price)[1])


def energy_distance(draws: ArrayLike, weights: ArrayLike, exact: ArrayLike) -> Array:
    """Return 2 E|x - y| - E|x - x'| - E|y - y'| of each chain, (C,): draws (n, C, D), weights (n, C), exact (m, D).

    The means are over pairs of two different draws, so independent exact draws score 0 on average, and some score less.
    It is the square of SciPy's, up to these pairs. NaN unless two draws have a weight and all numbers are finite. It
    takes C n (n + m) + m^2 / 2 distances. Source: G. J. Szekely, M. L. Rizzo, "Energy statistics: A class of statistics
    based on distances", Journal of Statistical Planning and Inference 143, 2013.
    """
    from scipy.spatial.distance import cdist

    x, w = as_block(draws, weights)
    y = np.ascontiguousarray(exact, dtype=np.float64)
    apart = _mean_distance(y.tobytes(), x.shape[2])
    with np.errstate(all="ignore"):
        chains = zip(x.swapaxes(0, 1), (w / w.sum(axis=0)).T, strict=True)
        return np.array([2 * v @ cdist(a, y).mean(axis=1) - _mean_of_pairs(cdist(a, a), v) - apart for a, v in chains])


@functools.lru_cache(maxsize=1)
def _mean_distance(points: bytes, dim: int) -> float:
    """Return the mean distance of two of the exact draws, which are the same for all runs of a task."""
    from scipy.spatial.distance import pdist

    return float(pdist(np.frombuffer(points).reshape(-1, dim)).mean())


def kernel_stein_discrepancy(draws: ArrayLike, gradients: ArrayLike, weights: ArrayLike) -> Array:
    """Return the squared kernel Stein discrepancy of each chain from exp(-U), (C,), with k = (1 + |x - y|^2)^(-1/2).

        mean over pairs i != j of k s_i.s_j + k^3 ((s_i - s_j).(x_i - x_j) + D) - 3 k^5 |x_i - x_j|^2,   s = -grad U

    draws and gradients, those of U at the draws: (n, C, D); weights (n, C). It is a U-statistic of n^2 pairs, and 0 on
    average for independent exact draws. Its unit is that of x^-2: whiten first. NaN as for `energy_distance`. It does
    not see the masses of modes that are far apart, on which the gradient does not depend.

    Sources: Q. Liu, J. D. Lee, M. Jordan, "A Kernelized Stein Discrepancy for Goodness-of-fit Tests", ICML 2016,
    eq. 14; the kernel: J. Gorham, L. Mackey, "Measuring Sample Quality with Kernels", ICML 2017.
    """
    from scipy.spatial.distance import cdist

    (x, w), (g, _) = as_block(draws, weights), as_block(gradients, weights, np.shape(draws)[-1])
    values = []
    with np.errstate(all="ignore"):
        for a, s, v in zip(x.swapaxes(0, 1), -g.swapaxes(0, 1), (w / w.sum(axis=0)).T, strict=True):
            squared, along = cdist(a, a, "sqeuclidean"), s @ a.T
            k2 = 1 / (1 + squared)
            slopes = np.diag(along)[:, None] + np.diag(along) - along - along.T
            kernel = np.sqrt(k2) * (s @ s.T + k2 * (slopes + a.shape[1] - 3 * squared * k2))
            values.append(_mean_of_pairs(kernel, v))
    return np.array(values)


def _mean_of_pairs(values: Array, weights: Array) -> float:
    """Return the mean of values (n, n) over pairs of two different draws, by their weights (n,) of sum 1."""
    squares = weights**2
    return (weights @ values @ weights - squares @ np.diag(values)) / (weights.sum() ** 2 - squares.sum())


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
