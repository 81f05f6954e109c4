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
_NAN = "values must not be NaN: leave failed runs out and count them"


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
    table = np.array([[values[name].get(seed, np.nan) for seed in seeds] for name in ranked])
    has = np.array([[seed in values[name] for seed in seeds] for name in ranked])
    if np.isnan(table[has]).any():
        raise ValueError(_NAN)
    point = np.array([x[there].mean() for x, there in zip(table, has, strict=True)])
    # Methods with equal values tie in every resample, whatever the rounding: each distinct row is averaged once.
    distinct = {row.tobytes(): row for row in table}
    place = {text: i for i, text in enumerate(distinct)}
    means = _resampled_means(np.stack([*distinct.values()]))[[place[row.tobytes()] for row in table]]
    # A resample without any seed of a method says nothing of it: its mean stands in.
    ranks = rank_replicates(point, np.where(np.isnan(means), point[:, None], means), direction, level)
    found: dict[str, Rank | None] = dict(zip(ranked, ranks, strict=True))
    return {name: found.get(name) for name in values}


def _resampled_means(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """The means of rows (M, S) over seeds that are drawn again and again, (M, B); NaN is "not run"."""
    size = table.shape[1]
    drawn = np.random.default_rng(0).integers(size, size=(RESAMPLES, size))
    cells = (drawn + size * np.arange(RESAMPLES)[:, None]).ravel()
    times = np.bincount(cells, minlength=RESAMPLES * size).reshape(RESAMPLES, size).T.astype(np.float64)
    sums = np.where(np.isfinite(table), table, 0.0) @ times
    for infinite in (np.inf, -np.inf):
        rows = (table == infinite).any(axis=1)
        sums[rows] += np.where((table[rows] == infinite) @ times > 0, infinite, 0.0)
    counts = (~np.isnan(table)).astype(np.float64) @ times
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / counts)


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
        raise ValueError(_NAN)
    sign = 1.0 if direction == "min" else -1.0
    rank = _ranks(sign * values[:, None])[:, 0]
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(_ranks(sign * resampled), tails, axis=1, method="inverted_cdf")
    low, high = np.minimum(low, rank), np.maximum(high, rank)
    tiers = _tiers(rank, low, high)
    return [Rank(int(r), int(a), int(b), t) for r, a, b, t in zip(rank, low, high, tiers, strict=True)]


def _ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Ranks (M, B) down each column, the least first; equal values share the least rank."""
    rows = np.ascontiguousarray(values.T)
    order = np.argsort(rows, axis=1)
    ascending = np.take_along_axis(rows, order, axis=1)
    places = np.tile(np.arange(len(values)), (len(rows), 1))
    places[:, 1:][ascending[:, 1:] == ascending[:, :-1]] = 0  # an equal one takes the place of the first of them
    ranks = np.empty_like(places)
    np.put_along_axis(ranks, order, np.maximum.accumulate(places, axis=1) + 1, axis=1)
    return ranks.T


def _tiers(rank: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]) -> list[int]:
    """Whoever overlaps the leader's interval shares its tier; the best of the rest leads the next."""
    tiers = np.zeros(len(rank), dtype=np.int64)
    tier = 0
    while (rest := np.flatnonzero(tiers == 0)).size:
        tier += 1
        leaders = rest[rank[rest] == rank[rest].min()]
        tiers[rest[low[rest] <= high[leaders].max()]] = tier
    return [int(t) for t in tiers]
