"""R-hat: whether the chains agree in location and in spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from harness.analysis.diagnostics.arrays import Array
from harness.analysis.diagnostics.chains import rank_normalise, split_chains


def rank_normalised_split_rhat(draws: ArrayLike) -> Array:
    """Return max(bulk, folded) R-hat of draws (n, C, D) -> (D,); about 1 if the chains agree.

    R-hat = sqrt(((n-1)/n W + B/n) / W) with W the mean variance within and B/n the variance between the means of the
    split chains, on normal scores of x (bulk: location) and of |x - median| (folded: spread). One chain is allowed: its
    halves are compared. NaN for a coordinate that is constant or not finite, inf if the chains are different constants.
    Raises ValueError for fewer than 4 draws. Source: Vehtari et al. (2021).
    """
    x = split_chains(draws)
    folded = np.abs(x - np.median(x, axis=(0, 1)))
    # A two-valued coordinate folds to a constant, whose R-hat is NaN and carries no information.
    return np.maximum(_rhat(rank_normalise(x)), np.fmax(_rhat(rank_normalise(folded)), 0.0))


def _rhat(x: Array) -> Array:
    n = len(x)
    moving = np.ptp(x, axis=0) > 0  # the variance of a constant may be a rounding error
    within = np.where(moving, x.var(axis=0, ddof=1), 0.0).mean(axis=0)
    between = x.mean(axis=0).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt((n - 1) / n + between / within))
