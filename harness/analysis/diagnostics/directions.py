"""The fixed directions along which a distribution is compared: marginal moments do not detect correlations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from harness.analysis.diagnostics.arrays import Array

MAX_RANDOM = 32
PER_DIMENSION = 4
_EQUAL = 1e-9


def directions(covariance: ArrayLike) -> Array:
    """Return unit vectors (K, D): D coordinate axes, the principal axes of the covariance S (D, D), and random ones.

    The random ones are S^-1/2 u, normalised, with u uniform on the sphere: if variances differ, u itself would detect
    errors only along the largest of them. There are min(32, 4 D), the same in every run. A vector that equals an
    earlier one up to its sign is left out, so K = 1 if D = 1. Signs are fixed: the largest entry is positive.
    """
    s = np.asarray(covariance, dtype=np.float64)
    dim = len(s)
    values, vectors = np.linalg.eigh(s)
    spread = np.random.default_rng(0).standard_normal((min(MAX_RANDOM, PER_DIMENSION * dim), dim))
    found = np.concatenate([np.eye(dim), vectors.T, spread / np.sqrt(values) @ vectors.T])
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    found *= np.sign(np.take_along_axis(found, np.abs(found).argmax(axis=1)[:, None], axis=1))
    repeats = np.triu(np.abs(found @ found.T) > 1 - _EQUAL, k=1).any(axis=0)
    return np.asarray(found[~repeats])
