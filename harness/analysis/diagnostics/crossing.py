"""The headline from the b2 curves of `low_error`: the cost of the last crossing, with a bootstrap over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.analysis.diagnostics.arrays import Array, IntArray
from harness.analysis.statistics import bootstrap_interval

THRESHOLD = 0.01
"""The mean b2 of 100 independent draws in one direction. In the worst direction of exact normal draws, the median of b2
is this low after about 190 draws in 2 dimensions and 600 in 14 (both z and z^2, the directions of `directions`).
"""
MINIMUM_CHAINS = 32
RESAMPLES = 1000


@dataclass(frozen=True)
class LowErrorCost:
    """The headline, its interval, and what it rests on.

    value: cost until low error, in the unit of the cost axis; inf if never reached, None (see reason) if not measured.
    low, high: its interval by bootstrap over seeds, whose ends may be inf. replicates: the bootstrap values that the
    interval is made from. All three are None with fewer than two seeds. share: the share of the rows that got there by
    the end of the budget (are low at its last point).
    """

    value: float | None
    low: float | None
    high: float | None
    share: float
    chains: int
    seeds: int
    reason: str | None = None
    replicates: Array | None = field(default=None, compare=False, repr=False)


def passes_to_low_error(
    curves: ArrayLike,
    cost: ArrayLike,
    seed_of_row: ArrayLike,
    threshold: float = THRESHOLD,
    minimum_chains: int = MINIMUM_CHAINS,
    level: float = 0.95,
) -> LowErrorCost:
    """Return the cost at which the median over rows of the b2 curves falls to the threshold for the last time.

    curves: (R, n_points), a row for each chain of each seed, from `LowError.curves`. cost: (n_points,), increasing:
    sequential gradient evaluations of a chain in data passes, burn-in and adaptation included. seed_of_row: (R,), the
    unit of replication. NaN marks points that were not reached: points after the end of every row are cut off, and a
    row that ends before the others counts as not low.

    This is the last crossing of the *median curve*: every later point is low too, and a dip does not count. The median
    of the crossings of single chains is another number, up to 18 times smaller, and no substitute. Raises ValueError
    for arrays that do not fit together.
    """
    b2, axis, seeds = _checked(curves, cost, seed_of_row)
    share = float(np.mean(b2[:, -1] <= threshold))
    count = len(np.unique(seeds))
    if len(b2) < minimum_chains:
        reason = f"{len(b2)} chains; the headline is a median over at least {minimum_chains}"
        return LowErrorCost(None, None, None, share, len(b2), count, reason)
    value = last_crossing(np.median(b2, axis=0), axis, threshold)
    if count < 2:
        return LowErrorCost(value, None, None, share, len(b2), count, "one seed: no interval")
    replicates = bootstrap_low_error(b2, axis, seeds, threshold)
    low, high = (within(end, axis) for end in bootstrap_interval(value, replicates, count, level))
    return LowErrorCost(value, low, high, share, len(b2), count, replicates=replicates)


def within(end: float, cost: ArrayLike) -> float:
    """Return the end of an interval of a cost, or inf if it is beyond the last cost that was measured."""
    return end if end <= np.max(cost) else np.inf


def bootstrap_low_error(
    curves: ArrayLike, cost: ArrayLike, seed_of_row: ArrayLike, threshold: float = THRESHOLD
) -> Array:
    """Return the headline on resampled seeds, (RESAMPLES,), inf allowed. All rows of a chosen seed are used together.

    The resampling depends only on the number of seeds, so replicate i of two methods run on the same seeds uses the
    same seeds: their difference and their ranks (`harness.analysis.statistics.rank_replicates`) are paired.
    """
    b2, axis, seeds = _checked(curves, cost, seed_of_row)
    parts = [b2[seeds == seed] for seed in np.unique(seeds)]
    above = ~_median_is_low(parts, seed_counts(len(parts)), threshold)
    first = np.where(above.any(axis=1), above.shape[1] - np.argmax(above[:, ::-1], axis=1), 0)
    return np.append(axis, np.inf)[first]


def seed_counts(seeds: int) -> Array:
    """Return how often each seed is chosen, (RESAMPLES, seeds): the same for every statistic of every method."""
    shape = (RESAMPLES, seeds)
    cells = np.random.default_rng(0).integers(seeds, size=shape) + seeds * np.arange(RESAMPLES)[:, None]
    return np.bincount(cells.ravel(), minlength=RESAMPLES * seeds).reshape(shape).astype(np.float64)


def _median_is_low(parts: Sequence[Array], times: Array, threshold: float) -> NDArray[np.bool_]:
    """Return whether the median is at or below the threshold, (B, P), over rows that take part s times[b, s] times.

    Counting suffices unless exactly half of the rows are low: then the median is the mean of the two values around it.
    """
    lows = np.stack([(part <= threshold).sum(axis=0) for part in parts])
    total, low = times @ np.array([len(part) for part in parts]), times @ lows
    is_low = np.asarray(2 * low > total[:, None])
    below = np.stack([np.where(part <= threshold, part, -np.inf).max(axis=0) for part in parts])
    above = np.stack([np.where(part <= threshold, np.inf, part).min(axis=0) for part in parts])
    split = 2 * low == total[:, None]
    for p in np.flatnonzero(split.any(axis=0)):
        taken = times[split[:, p]] > 0
        under = np.where(taken, below[:, p], -np.inf).max(axis=1)
        over = np.where(taken, above[:, p], np.inf).min(axis=1)
        is_low[split[:, p], p] = (under + over) / 2 <= threshold
    return is_low


def last_crossing(curve: Array, cost: Array, threshold: float) -> float:
    """Return the cost of the first point from which on the curve is at or below the threshold; inf if there is none."""
    above = np.flatnonzero(~(curve <= threshold))
    first = int(above[-1]) + 1 if above.size else 0
    return float(cost[first]) if first < len(cost) else np.inf


def _checked(curves: ArrayLike, cost: ArrayLike, seed_of_row: ArrayLike) -> tuple[Array, Array, IntArray]:
    b2, axis = np.asarray(curves, dtype=np.float64), np.asarray(cost, dtype=np.float64)
    seeds = np.asarray(seed_of_row, dtype=np.int64)
    if b2.ndim != 2 or not b2.size or axis.shape != b2.shape[1:] or seeds.shape != b2.shape[:1]:
        shapes = f"{b2.shape}, {axis.shape}, {seeds.shape}"
        raise ValueError(f"curves (R, P), cost (P,) and seed_of_row (R,) do not fit together: {shapes}")
    if not (np.diff(axis) > 0).all():
        raise ValueError("cost must increase")
    reached = np.flatnonzero(~np.isnan(b2).all(axis=0))
    end = int(reached[-1]) + 1 if reached.size else b2.shape[1]
    return np.where(np.isnan(b2), np.inf, b2)[:, :end], axis[:end], seeds
