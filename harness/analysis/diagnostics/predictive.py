"""How far predicted probabilities are from those of a reference, such as long HMC.

Everywhere p and q (n, K) are the probabilities of K classes for n inputs.

Source: P. Izmailov, S. Vikram, M. D. Hoffman, A. G. Wilson, "What Are Bayesian Neural Network Posteriors Really Like?",
ICML 2021, and the code of the NeurIPS 2021 competition (izmailovpavel/neurips_bdl_starter_kit, metrics.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def agreement(probabilities: ArrayLike, reference: ArrayLike) -> float:
    """Return the share of inputs for which both have the same most probable class, the lowest among equals."""
    p, q = _checked(probabilities, reference)
    return float((p.argmax(axis=1) == q.argmax(axis=1)).mean())


def total_variation(probabilities: ArrayLike, reference: ArrayLike) -> float:
    """Return the total variation distance in [0, 1], mean_i sum_k |p_ik - q_ik| / 2."""
    p, q = _checked(probabilities, reference)
    return float(np.abs(p - q).sum(axis=1).mean() / 2)


def _checked(probabilities: ArrayLike, reference: ArrayLike) -> tuple[Array, Array]:
    p, q = np.asarray(probabilities, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if p.ndim != 2 or p.shape != q.shape or not len(p):
        raise ValueError(f"two arrays (n, K) of one shape are needed, got {p.shape} and {q.shape}")
    return p, q
