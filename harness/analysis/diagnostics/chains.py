"""How many independent draws the chains of a run are worth, and whether they agree.

The effective sample size of the papers (with the truth's moments), bulk and tail ESS, and R-hat of split,
rank-normalised chains: Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from harness.analysis.diagnostics.arrays import Array


def ess_of_autocorrelation(rho: ArrayLike, cut: float = 0.05) -> Array:
    """Return n / (1 + 2 sum_s (1 - s/n) rho_s) for rho (n, ...), lag 0 first.

    The sum stops before the first rho_s < cut.
    """
    r = np.asarray(rho, dtype=np.float64)
    n = len(r)
    kept = np.logical_and.accumulate(r[1:] >= cut, axis=0)
    taper = (1.0 - np.arange(1, n) / n).reshape(-1, *[1] * (r.ndim - 1))
    tau = 1.0 + 2.0 * np.sum(taper * r[1:], axis=0, where=kept)
    return np.asarray(n / tau)


def bulk_ess(draws: ArrayLike) -> Array:
    """Return the bulk ESS of draws (n, C, D), in draws of all chains together: (D,).

    It is computed from split, rank-normalised chains with Geyer's initial monotone sequence, and equals that of ArviZ.
    NaN for a coordinate that is constant (for which ArviZ returns the number of draws) or not finite. Raises ValueError
    for fewer than 4 draws a chain. Source: Vehtari et al. (2021), section 4.1.
    """
    return _multichain_ess(rank_normalise(split_chains(draws)))


def tail_ess(draws: ArrayLike) -> Array:
    """Return the tail ESS of draws (n, C, D): the smaller of the ESS of I(x <= q05) and I(x <= q95). Shape (D,).

    The quantiles are `np.quantile`'s of all draws, as in ArviZ, including the middle one of an odd n. A constant
    indicator, as that of the upper quantile of most two-valued coordinates, has the ESS of independent draws. NaN,
    errors and ArviZ as for `bulk_ess`. Source: Vehtari et al. (2021), section 4.3.
    """
    halves = split_chains(draws)
    x = finite_or_zero(draws)
    indicators = (halves <= q for q in np.quantile(x.reshape(-1, x.shape[2]), [0.05, 0.95], axis=0))
    independent = halves.shape[0] * halves.shape[1]
    sizes = [np.nan_to_num(_multichain_ess(indicator.astype(np.float64)), nan=independent) for indicator in indicators]
    return np.where(np.ptp(halves, axis=(0, 1)) > 0, np.minimum(*sizes), np.nan)


def lagged_products(x: Array) -> Array:
    """Return sum_{t >= s} x_t x_{t-s} for s < n along the first axis, by FFT of x padded with n zeros or more."""
    n = len(x)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(x, size, axis=0)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, size, axis=0)[:n])


def autocorrelation(draws: ArrayLike) -> Array:
    """Return the autocorrelation of draws (n, C, D) of all chains together at lags 0 to n - 1, (n, D).

    rho_t = 1 - (W - mean over chains of the autocovariance at lag t) / var+, with W the variance within chains and var+
    that of all draws: it does not fall to 0 if the chains disagree. NaN for a coordinate that is constant or not
    finite. Source: Vehtari et al. (2021), equation 10.
    """
    x = finite_or_zero(draws)
    n, chains, dim = x.shape
    covariance = lagged_products(x - x.mean(axis=0)).mean(axis=1) / n
    within = covariance[0] * n / (n - 1)
    between = x.mean(axis=0).var(axis=0, ddof=1) if chains > 1 else np.zeros(dim)
    total = within * (n - 1) / n + between
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1.0 - (within - covariance) / total
    rho[0] = 1.0
    return np.where(total > 0, rho, np.nan)


def _multichain_ess(x: Array) -> Array:
    """Return the ESS of the mean over chains, (n, M, D) -> (D,): Vehtari et al. (2021), equations 9 to 13."""
    n, chains, dim = x.shape
    rho = autocorrelation(x)
    pairs = rho[: n // 2 * 2].reshape(n // 2, 2, dim).sum(axis=1)
    # Geyer's initial positive sequence ends at the first pair that is not positive or, as in ArviZ, at the last
    # pair that ends within n - 1 lags. Of the pair at which it ends, the even lag counts once if it is positive.
    positive = np.logical_and.accumulate(pairs[: max(0, (n - 3) // 2)] > 0, axis=0)
    stop = positive.sum(axis=0)
    even, pair = (values[index, np.arange(dim)] for values, index in ((rho, 2 * stop), (pairs, stop)))
    last = np.where((even > 0) | ((pair >= 0) & (stop > 0)), even, 0.0)
    monotone = np.minimum.accumulate(pairs, axis=0)[: len(positive)]
    tau = -1.0 + 2.0 * np.sum(monotone, axis=0, where=positive) + last
    ess = n * chains / np.maximum(tau, 1.0 / np.log10(n * chains))
    return np.where(np.isnan(rho[0]), np.nan, ess)


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
