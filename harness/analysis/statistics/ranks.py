"""Ranks of methods by their values over seeds, and verdicts: which is best, which equal it, and which are worse.

Every pair has a test of its own (`paired_test`, `log_ratio_test`), at the level 1 - .05 / m for m pairs: so all their
intervals hold at once in 95 % of leaderboards, and whether two methods differ does not depend on the values of others.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from harness.analysis.statistics.tests import (
    PairedTest,
    log_ratio_test,
    paired_p,
    paired_test,
    unpaired,
    unpaired_test,
    with_signed_ranks,
    within,
)

Direction = Literal["min", "max"]
"""Whether the lowest or the highest value is best."""
MINIMUM_SEEDS = 5
"""Fewest seeds of a row that has a rank."""
Compared = dict[int, tuple[float, float]]
"""Maps the methods with which one was compared to the p and the estimate of the pair."""
_NAN = "values must not be NaN: leave failed runs out and count them"


class Verdict(StrEnum):
    """What the seeds say of a method: it is equivalent to the best, worse than it, or neither is known.

    Too few: whatever the values of so many seeds were, they could not decide.
    """

    BEST = "best"
    TIED = "tied with the best"
    WORSE = "worse"
    UNKNOWN = "not known"
    TOO_FEW = "too few seeds for a verdict"


LEADS = (Verdict.BEST, Verdict.TIED)
"""The verdicts of methods that lead."""


@dataclass(frozen=True)
class Rank:
    """The rank of a method and the verdict on it.

    rank       1 is best, and equal values share the better rank
    low, high  1 + the number of methods that are better, and M - the number that are worse
    verdict    best: it has the best value. The others by their own pair with it: tied, if the interval lies within the
               margin; worse, if it excludes "no difference"; too few seeds, if the test can reject nothing (the best:
               if none of its pairs can); else not known
    seeds      if not known or too few: how many would probably decide the pair; None if 10,000 are too few
    """

    rank: int
    low: int
    high: int
    verdict: Verdict
    seeds: int | None = None


def rank_methods(
    values: Mapping[str, Mapping[int, float]],
    direction: Direction,
    level: float = 0.95,
    minimum_seeds: int = MINIMUM_SEEDS,
    margin: float | None = None,
    *,
    rare: bool = False,
) -> dict[str, Rank | None]:
    """Rank methods by their mean over seeds: {method: {seed: value}} -> {method: Rank}.

    Two methods are compared on the seeds that both have, because the data, order and init of a seed do not depend on
    the sampler; if these are fewer than minimum_seeds, they are compared without pairing. Values may be infinite
    ("never"): the mean is then infinite too, and in a test they are as far beyond the finite ones as these are apart. A
    method with fewer than minimum_seeds seeds is unranked: None. If seeds may fail rarely (`rare`), the tests are also
    by signed ranks, and methods without pairs are not told apart. Raises ValueError for a NaN or an unknown direction.
    """
    ranked = {name: by_seed for name, by_seed in values.items() if len(by_seed) >= minimum_seeds}
    numbers = np.array([value for by_seed in ranked.values() for value in by_seed.values()])
    if np.isnan(numbers).any():
        raise ValueError(_NAN)
    finite = numbers[np.isfinite(numbers)] if np.isfinite(numbers).any() else np.zeros(1)
    far = float(np.ptp(finite)) or 1.0
    least, greatest = float(finite.min()) - far, float(finite.max()) + far
    rows = [
        {seed: float(min(max(value, least), greatest)) for seed, value in by_seed.items()}
        for by_seed in ranked.values()
    ]

    @functools.cache
    def test(a: int, b: int) -> PairedTest:
        x, y = rows[a], rows[b]
        common = x.keys() & y.keys()
        if len(common) >= max(minimum_seeds, 2):
            differences = [x[seed] - y[seed] for seed in sorted(common)]
            tested = paired_test(differences)
            return with_signed_ranks(tested, differences) if rare else tested
        tested = unpaired_test([*x.values()], [*y.values()])
        return with_signed_ranks(tested, [0.0]) if rare else tested

    seeds_of = [tuple(sorted(row)) for row in rows]
    vectors = [np.array([row[seed] for seed in seeds]) for row, seeds in zip(rows, seeds_of, strict=True)]

    def compare(a: int, others: Sequence[int]) -> Compared:
        alike = set() if rare or len(vectors[a]) < 2 else {b for b in others if seeds_of[b] == seeds_of[a]}
        compared = _one_by_one(test)(a, [b for b in others if b not in alike])
        if alike:
            differences = vectors[a] - np.stack([vectors[b] for b in alike])
            pairs = zip(paired_p(differences).tolist(), differences.mean(axis=1).tolist(), strict=True)
            compared.update(zip(alike, pairs, strict=True))
        return compared

    means = [float(np.mean([*by_seed.values()])) for by_seed in ranked.values()]
    ranks = dict(zip(ranked, _ranked(means, test, compare, direction, level, margin, math.inf), strict=True))
    return {name: ranks.get(name) for name in values}


def rank_replicates(
    point: ArrayLike,
    replicates: ArrayLike,
    direction: Direction,
    level: float = 0.95,
    seeds: int | Sequence[Collection[int]] = MINIMUM_SEEDS,
    margin: float | None = None,
    limit: float = math.inf,
    by_seed: Sequence[Mapping[int, float]] | None = None,
) -> list[Rank]:
    """Rank M methods by values point (M,), from bootstrap replicates (M, B) over `seeds`, a number or those of each.

    This is for statistics that are not means over seeds (`bootstrap_low_error` returns replicates). They are compared
    by the logarithm of their ratio, and so is the margin; without pairing unless they have the same seeds. A method
    whose value is not below `limit` is never tied. If seeds may fail rarely, `by_seed` has each method's statistic of
    each seed alone, for tests by signed ranks.
    """
    values, resampled = np.asarray(point, dtype=np.float64), np.asarray(replicates, dtype=np.float64)
    if values.ndim != 1 or resampled.ndim != 2 or len(resampled) != len(values) or not resampled.size:
        raise ValueError(f"point (M,) and replicates (M, B) do not fit: {values.shape}, {resampled.shape}")
    if np.isnan(values).any() or np.isnan(resampled).any():
        raise ValueError(_NAN)
    of_each = [set(range(seeds))] * len(values) if isinstance(seeds, int) else [set(one) for one in seeds]
    if (fewest := min(map(len, of_each))) < 2:
        raise ValueError(f"replicates need two seeds, got {fewest}")
    rows = np.column_stack([resampled, values])

    @functools.cache
    def test(a: int, b: int) -> PairedTest:
        other = rows[b] if of_each[a] == of_each[b] else unpaired(rows[b])
        tested = log_ratio_test(rows[a], other, min(len(of_each[a]), len(of_each[b])))
        if by_seed is None:
            return tested
        common = by_seed[a].keys() & by_seed[b].keys()
        return with_signed_ranks(tested, [by_seed[a][seed] - by_seed[b][seed] for seed in common] or [0.0])

    return _ranked(values.tolist(), test, _one_by_one(test), direction, level, margin, limit)


def _one_by_one(test: Callable[[int, int], PairedTest]) -> Callable[[int, Sequence[int]], Compared]:
    return lambda a, others: {b: (tested.p, tested.estimate) for b in others for tested in (test(a, b),)}


def _ranked(
    points: Sequence[float],
    test: Callable[[int, int], PairedTest],
    compare: Callable[[int, Sequence[int]], Compared],
    direction: str,
    level: float,
    margin: float | None,
    limit: float,
) -> list[Rank]:
    if direction not in {"min", "max"}:
        raise ValueError(f"direction must be min or max, got {direction!r}")
    sign = 1 if direction == "min" else -1
    ranks = [1 + sum(sign * other < sign * point for other in points) for point in points]
    order = sorted(range(len(points)), key=lambda i: ranks[i])
    each = 1 - (1 - level) / max(math.comb(len(points), 2), 1)
    better = {
        (i, j)
        for number, i in enumerate(order, 1)
        for j, (p, estimate) in compare(i, order[number:]).items()
        if p < 1 - each and sign * estimate < 0
    }
    above, below = Counter(j for _, j in better), Counter(i for i, _ in better)

    def is_blind(i: int, j: int) -> bool:
        return test(i, j).ends(each) == (None, None)

    def verdict(i: int) -> tuple[Verdict, int | None]:
        if ranks[i] == 1:
            few = len(points) > 1 and all(is_blind(i, j) for j in order if j != i)
            return Verdict.TOO_FEW if few else Verdict.BEST if math.isfinite(points[i]) else Verdict.UNKNOWN, None
        tested = test(order[0], i)
        if points[i] < limit and within(tested.ends(each), margin):
            return Verdict.TIED, None
        if (order[0], i) in better:
            return Verdict.WORSE, None
        return Verdict.TOO_FEW if is_blind(order[0], i) else Verdict.UNKNOWN, tested.seeds_to_decide(each, margin)

    return [Rank(rank, 1 + above[i], len(points) - below[i], *verdict(i)) for i, rank in enumerate(ranks)]
