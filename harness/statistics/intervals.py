"""Mean and interval over seeds, which are the unit of replication."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Interval:
    """kind "t": a t interval. "range": least and greatest value, no interval. "none": one value, no ends."""

    mean: float
    low: float | None
    high: float | None
    kind: Literal["t", "range", "none"]


def mean_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """mean +- t s / sqrt(n) of values (n,), one a seed; t is 4.30 at n = 3 and 2.78 at n = 5 for level 0.95.

    One value: kind "none". No variance among the seeds, or an infinite value ("never"): kind "range", because
    no interval can be had from them. ValueError for no values or a NaN (a failed run is not a value).
    """
    x = as_values(values)
    n = len(x)
    if n == 1:
        return Interval(float(x[0]), None, None, "none")
    low, high = float(x.min()), float(x.max())
    if low == high:
        return Interval(low, low, high, "range")
    if not np.isfinite(x).all():
        mean = np.nan if np.isneginf(low) and np.isposinf(high) else float(x.mean())
        return Interval(mean, low, high, "range")
    mean, half = float(x.mean()), t_multiplier(n - 1, level) * float(x.std(ddof=1)) / float(np.sqrt(n))
    return Interval(mean, mean - half, mean + half, "t")


@functools.cache
def t_multiplier(df: float, level: float = 0.95) -> float:
    """The two-sided t quantile: P(|t_df| <= it) = level."""
    from scipy.special import stdtrit  # as scipy.stats.t.ppf, which takes longer to import than a report to make

    return float(stdtrit(df, (1.0 + level) / 2.0))


def as_values(values: ArrayLike) -> NDArray[np.float64]:
    """Values as float64 (n,). ValueError for no values, another shape, or a NaN."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or not x.size:
        raise ValueError(f"values must have shape (n,) with n >= 1, got {x.shape}")
    if np.isnan(x).any():
        raise ValueError("values must not be NaN: leave failed runs out and count them")
    return x
