"""Ranks of methods with bootstrap intervals over seeds, and tiers of those that cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Direction = Literal["min", "max"]
MINIMUM_SEEDS = 5
RESAMPLES = 2000


@dataclass(frozen=True)
class Rank:
    """rank 1 is best, equal values share the better rank; low, high: its interval; tier 1 is the leaders'."""

    rank: int
    low: int
    high: int
    tier: int


def rank_methods(
    values: Mapping[str, Mapping[int, float]],
    direction: Direction,
    level: float = 0.95,
    minimum_seeds: int = MINIMUM_SEEDS,
) -> dict[str, Rank | None]:
    """Rank methods by their mean over seeds: {method: {seed: value}} -> {method: Rank}.

    Seeds are resampled jointly, because methods share them (data, order and init of a seed do not depend on
    the sampler). Values may be infinite ("never"): so is the mean then, and infinite means tie. A method with
    fewer than minimum_seeds seeds is unranked: None. ValueError for a NaN or an unknown direction.
    """
    ranked = [name for name, of_seed in values.items() if len(of_seed) >= minimum_seeds]
    if not ranked:
        return dict.fromkeys(values)
    seeds = sorted({seed for name in ranked for seed in values[name]})
    drawn = np.random.default_rng(0).integers(len(seeds), size=(RESAMPLES, len(seeds)))
    point, replicates = [], []
    for name in ranked:
        x = np.array([values[name].get(seed, 0.0) for seed in seeds])
        has = np.array([seed in values[name] for seed in seeds])
        counts = has[drawn].sum(axis=1)
        point.append(x[has].mean())
        # A resample without any seed of this method says nothing of it: its mean stands in.
        means = x[drawn].sum(axis=1) / np.maximum(counts, 1)
        replicates.append(np.where(counts > 0, means, point[-1]))
    ranks = rank_replicates(point, replicates, direction, level)
    found: dict[str, Rank | None] = dict(zip(ranked, ranks, strict=True))
    return {name: found.get(name) for name in values}


def rank_replicates(point: ArrayLike, replicates: ArrayLike, direction: Direction, level: float = 0.95) -> list[Rank]:
    """Rank M methods by their values point (M,), intervals from paired bootstrap replicates (M, B).

    For statistics that are not means over seeds (`bootstrap_low_error` gives such replicates). The interval
    holds the central share `level` of the ranks among the replicates, and the rank itself.
    """
    values, resampled = np.asarray(point, dtype=np.float64), np.asarray(replicates, dtype=np.float64)
    if direction not in {"min", "max"}:
        raise ValueError(f"direction must be min or max, got {direction!r}")
    if values.ndim != 1 or resampled.ndim != 2 or len(resampled) != len(values) or not resampled.size:
        raise ValueError(f"point (M,) and replicates (M, B) do not fit: {values.shape}, {resampled.shape}")
    if np.isnan(values).any() or np.isnan(resampled).any():
        raise ValueError("values must not be NaN: leave failed runs out and count them")
    sign = 1.0 if direction == "min" else -1.0
    rank = _ranks(sign * values[:, None])[:, 0]
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(_ranks(sign * resampled), tails, axis=1, method="inverted_cdf")
    low, high = np.minimum(low, rank), np.maximum(high, rank)
    tiers = _tiers(rank, low, high)
    return [Rank(int(r), int(a), int(b), t) for r, a, b, t in zip(rank, low, high, tiers, strict=True)]


def _ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Ranks (M, B) down each column, the least first; equal values share the least rank."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, method="min", axis=0), dtype=np.int64)


def _tiers(rank: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]) -> list[int]:
    """Whoever overlaps the leader's interval shares its tier; the best of the rest leads the next."""
    tiers = np.zeros(len(rank), dtype=np.int64)
    tier = 0
    while (rest := np.flatnonzero(tiers == 0)).size:
        tier += 1
        leaders = rest[rank[rest] == rank[rest].min()]
        tiers[rest[low[rest] <= high[leaders].max()]] = tier
    return [int(t) for t in tiers]
