"""Preparation of draws for the diagnostics of Vehtari et al. (2021): splitting chains and rank-normalising."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from harness.analysis.diagnostics.arrays import Array


def split_chains(draws: ArrayLike) -> Array:
    """Halve each chain: (n, C, D) -> (n // 2, 2C, D). If n is odd, the middle draw is left out.

    Draws that are not finite are treated as in `finite_or_zero`. Raises ValueError for another shape or fewer than 4
    draws.
    """
    x = np.asarray(draws, dtype=np.float64)
    if x.ndim != 3:
        raise ValueError(f"draws must have shape (n, C, D), got {x.shape}")
    if len(x) < 4:
        raise ValueError(f"split-chain diagnostics need at least 4 draws a chain, got {len(x)}")
    x = finite_or_zero(x)
    half = len(x) // 2
    return np.concatenate([x[:half], x[-half:]], axis=1)


def finite_or_zero(draws: ArrayLike) -> Array:
    """Return the draws (n, C, D), with 0 throughout a coordinate that has any draw that is not finite.

    Such a coordinate is then a constant, for which the diagnostics return NaN.
    """
    x = np.asarray(draws, dtype=np.float64)
    return np.where(np.isfinite(x).all(axis=(0, 1)), x, 0.0)


def rank_normalise(draws: Array) -> Array:
    """Return the normal scores of the ranks among all chains: Phi^-1((rank - 3/8) / (S + 1/4)), S = n C.

    Tied values get their average rank. Shape (n, C, D) in and out. Source: Vehtari et al. (2021), equation 14.
    """
    from scipy.special import ndtri

    pooled = draws.reshape(-1, draws.shape[2])
    scores: Array = ndtri((_ranks(pooled) - 0.375) / (len(pooled) + 0.25))
    return scores.reshape(draws.shape)


def _ranks(x: Array) -> Array:
    """Return the ranks in each column, from 1, averaged over ties. scipy.stats.rankdata takes longer to import."""
    ranks = np.empty(x.shape)
    for column, out in zip(x.T, ranks.T, strict=True):
        order = column.argsort(kind="stable")
        ordered = column[order]
        first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        size = np.diff(first, append=len(x))
        out[order] = np.repeat(first + (size + 1) / 2, size)
    return ranks
