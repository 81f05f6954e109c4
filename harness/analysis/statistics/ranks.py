"""Ranks of methods, their intervals, and tiers of methods that cannot be distinguished.

Method i, which ranks before j, is called better than j if

    (x_j - x_i) / max(s_ij, median over k of s_ik) > q(M, n - 1) / sqrt 2

where x are the methods' values, with the difference taken in favour of i; s_ij is the standard error of the paired
difference; k runs over the methods ranked behind i as far as j; and q is the studentised range of M methods at `level`.
These are Tukey's comparisons with an error term for each pair (Games and Howell 1976; Maxwell 1980 for repeated
measures). The median prevents a false alarm for a pair whose seeds agree by chance. Values that cannot be negative are
compared by their logarithms.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.analysis.statistics.intervals import log_scale

Direction = Literal["min", "max"]
Array = NDArray[np.float64]
MINIMUM_SEEDS = 5
_NAN = "values must not be NaN: leave failed runs out and count them"


@dataclass(frozen=True)
class Rank:
    """The rank of a method. rank: 1 is best, and equal values share the better rank.

    low, high: 1 + the number of methods called better, and M - the number of methods called worse. The intervals of all
    methods hold at once with probability `level`. tier: tier 1 has the leader and those that it is not better than; the
    best of the rest leads tier 2. So the leader of each earlier tier is better than a method, and nothing is said about
    other pairs. If all methods are equal, there is more than one tier with probability 1 - `level` at most.
    """

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

    Two methods are compared on the seeds that both have, because the data, order and init of a seed do not depend on
    the sampler; if these are fewer than minimum_seeds, they are compared without pairing. Values may be infinite
    ("never"): the mean is then infinite too, and infinite means tie. A method with fewer than minimum_seeds seeds is
    unranked: None. Raises ValueError for a NaN or an unknown direction.
    """
    sign = _sign(direction)
    ranked = [name for name, of_seed in values.items() if len(of_seed) >= minimum_seeds]
    if not ranked:
        return dict.fromkeys(values)
    seeds = sorted({seed for name in ranked for seed in values[name]})
    table = np.array([[values[name].get(seed, np.nan) for seed in seeds] for name in ranked])
    has = np.array([[seed in values[name] for seed in seeds] for name in ranked])
    if np.isnan(table[has]).any():
        raise ValueError(_NAN)
    point = np.array([x[there].mean() for x, there in zip(table, has, strict=True)])
    behind, error, count = _paired(sign * _comparable(table), has, minimum_seeds)
    ranks = _ranked(sign * point, behind, error, count, level)
    by_name: dict[str, Rank | None] = dict(zip(ranked, ranks, strict=True))
    return {name: by_name.get(name) for name in values}


def rank_replicates(
    point: ArrayLike, replicates: ArrayLike, direction: Direction, level: float = 0.95, seeds: int = MINIMUM_SEEDS
) -> list[Rank]:
    """Rank M methods by values point (M,), with errors from paired bootstrap replicates (M, B) over `seeds` seeds.

    This is for statistics that are not means over seeds (`bootstrap_low_error` returns replicates). The variance of a
    difference among replicates is (n - 1)/n of a sample variance, so it is multiplied by n/(n - 1). If the replicates
    of a pair overlap, the error is at least that of a normal distribution with the same overlap: a cost that is never
    reached in some replicates has no useful variance.
    """
    from scipy.special import ndtri

    sign = _sign(direction)
    values, resampled = np.asarray(point, dtype=np.float64), np.asarray(replicates, dtype=np.float64)
    if values.ndim != 1 or resampled.ndim != 2 or len(resampled) != len(values) or not resampled.size:
        raise ValueError(f"point (M,) and replicates (M, B) do not fit: {values.shape}, {resampled.shape}")
    if np.isnan(values).any() or np.isnan(resampled).any():
        raise ValueError(_NAN)
    if seeds < 2:
        raise ValueError(f"replicates need two seeds, got {seeds}")
    scaled = sign * _comparable(np.column_stack([values, resampled]))
    behind = scaled[None, :, 0] - scaled[:, None, 0]
    differences = (scaled[:, 1:] - row for row in scaled[:, 1:])
    variance, beyond = zip(*((d.var(axis=1), ndtri(_share_above_zero(d))) for d in differences), strict=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        overlap = np.where(np.asarray(beyond) > 0, behind / np.asarray(beyond), np.where(behind > 0, np.inf, 0.0))
    spread = np.maximum(np.sqrt(variance), overlap)
    return _ranked(sign * values, behind, spread * np.sqrt(seeds / (seeds - 1)), seeds, level)


def _share_above_zero(differences: Array) -> Array:
    """Return the share of positive differences in each row; zeros count half."""
    return np.asarray(((differences > 0).mean(axis=1) + (differences >= 0).mean(axis=1)) / 2)


def _sign(direction: str) -> float:
    if direction not in {"min", "max"}:
        raise ValueError(f"direction must be min or max, got {direction!r}")
    return 1.0 if direction == "min" else -1.0


def _comparable(values: Array) -> Array:
    """Return values on the scale of their differences, all finite: logarithms if none is negative. NaN stays NaN.

    If there are negative values, inf is as far beyond the others as these are apart.
    """
    if not (values < 0).any():
        return log_scale(values)[0]
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    apart = (high - low) or 1.0
    return np.asarray(np.where(np.isnan(values), np.nan, np.clip(values, low - apart, high + apart)))


def _paired(table: Array, has: NDArray[np.bool_], fewest: int) -> tuple[Array, Array, int]:
    """Return mean differences [i, j] of rows j and i, their standard errors, and the fewest seeds of one of them."""
    x = np.where(has, table, 0.0)
    count = has.sum(axis=1)
    mean = x.sum(axis=1) / count
    variance = (np.where(has, x - mean[:, None], 0.0) ** 2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.where(count > 1, variance / (count - 1) / count, np.inf)
        behind, error, least = mean[None, :] - mean[:, None], variance[None, :] + variance[:, None], int(count.min())
        for i in range(len(x) - 1):
            others = slice(i + 1, None)
            both = has[others] & has[i]
            n = both.sum(axis=1)
            difference = np.where(both, x[others] - x[i], 0.0)
            centre = difference.sum(axis=1) / n
            squares = (np.where(both, difference - centre[:, None], 0.0) ** 2).sum(axis=1) / (n - 1) / n
            paired = n >= max(fewest, 2)
            behind[i, others] = np.where(paired, centre, behind[i, others])
            error[i, others] = np.where(paired, squares, error[i, others])
            behind[others, i], error[others, i] = -behind[i, others], error[i, others]
            least = min([least, *n[paired].tolist()])
    return behind, np.sqrt(error), least


def _ranked(point: Array, behind: Array, error: Array, seeds: int, level: float) -> list[Rank]:
    """Return the ranks of points, the least first, from the differences [i, j] of j and i and their standard errors."""
    rank = 1 + (point[None, :] < point[:, None]).sum(axis=1)
    order = np.argsort(rank, kind="stable")
    better = np.zeros(error.shape, dtype=bool)
    multiplier = tukey_multiplier(len(point), max(seeds - 1, 1), level)
    for position, i in enumerate(order):
        behind_it = order[position + 1 :]
        errors = error[i, behind_it]
        margin = multiplier * np.maximum(errors, _running_medians(errors.tolist()))
        better[i, behind_it] = (rank[i] < rank[behind_it]) & (behind[i, behind_it] > margin)
    low, high = 1 + better.sum(axis=0), len(point) - better.sum(axis=1)
    tiers = _tiers(rank, better)
    return [Rank(int(r), int(a), int(b), t) for r, a, b, t in zip(rank, low, high, tiers, strict=True)]


def _running_medians(values: Sequence[float]) -> list[float]:
    """Return the median of the first value, of the first two, and so on."""
    medians: list[float] = []
    known: list[float] = []
    for n, value in enumerate(values):
        bisect.insort(known, value)
        medians.append((known[n // 2] + known[(n + 1) // 2]) / 2)
    return medians


def _tiers(rank: NDArray[np.int64], better: NDArray[np.bool_]) -> list[int]:
    """Return tiers: methods that a leader is not better than share its tier; the best of the rest leads the next."""
    tiers = np.zeros(len(rank), dtype=np.int64)
    tier = 0
    while (rest := np.flatnonzero(tiers == 0)).size:
        tier += 1
        leaders = rest[rank[rest] == rank[rest].min()]
        tiers[rest[~better[np.ix_(leaders, rest)].all(axis=0)]] = tier
    return [int(t) for t in tiers]


@functools.cache
def tukey_multiplier(methods: int, df: float, level: float = 0.95) -> float:
    """Return q / sqrt 2: the quantile of the largest |difference| among `methods` equal means, in standard errors.

    For two means it is t.
    P(range of M normals <= q s) = E_s[M int phi(z) (Phi(z) - Phi(z - q s))^(M - 1) dz], s^2 ~ chi^2_df / df, by
    quadrature: to 1e-3 of the value for df >= 4.
    """
    from scipy.special import gammaincinv, ndtr  # scipy.stats takes longer to import

    if methods < 2:
        return 0.0
    z, weight = np.linspace(-8.0, 8.0, 161), 0.1
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * weight
    share, share_weight = np.polynomial.legendre.leggauss(64)
    s = np.sqrt(2 * gammaincinv(df / 2, (1 + share) / 2) / df)

    def probability(q: float) -> float:
        inner = (ndtr(z) - ndtr(z - q * s[:, None])) ** (methods - 1) @ density
        return float(methods * inner @ share_weight / 2)

    low, high = 0.0, 1.0
    while probability(high) < level:
        high *= 2
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if probability(middle) < level else (low, middle)
    return high / float(np.sqrt(2.0))
