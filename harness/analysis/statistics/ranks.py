"""Ranks of methods by their values over seeds, and verdicts: which is best, which equal it, and which are worse.

Every pair has a test of its own (`paired_test`, `log_ratio_test`), at the level 1 - .05 / m for m pairs: so all their
intervals hold at once in 95 % of leaderboards, and whether two methods differ does not depend on the values of others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.analysis.statistics.tests import PairedTest, log_ratio_test, paired_test, unpaired_test

Direction = Literal["min", "max"]
MINIMUM_SEEDS = 5
_NAN = "values must not be NaN: leave failed runs out and count them"


class Verdict(StrEnum):
    """What the seeds say of a method: it is equivalent to the best, worse than it, or neither is known."""

    BEST = "best"
    TIED = "tied with the best"
    WORSE = "worse"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Rank:
    """The rank of a method and the verdict on it.

    rank       1 is best, and equal values share the better rank
    low, high  1 + the number of methods that are better, and M - the number that are worse
    verdict    best: it has the best value. The others by their own pair with it: tied, if the interval lies within the
               margin; worse, if it excludes "no difference"; else not known
    seeds      if not known: how many seeds would probably decide the pair; None if 10,000 are too few
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
) -> dict[str, Rank | None]:
    """Rank methods by their mean over seeds: {method: {seed: value}} -> {method: Rank}.

    Two methods are compared on the seeds that both have, because the data, order and init of a seed do not depend on
    the sampler; if these are fewer than minimum_seeds, they are compared without pairing. Values may be infinite
    ("never"): the mean is then infinite too, and in a test they are as far beyond the finite ones as these are apart. A
    method with fewer than minimum_seeds seeds is unranked: None. Raises ValueError for a NaN or an unknown direction.
    """
    ranked = {name: by_seed for name, by_seed in values.items() if len(by_seed) >= minimum_seeds}
    numbers = np.array([value for by_seed in ranked.values() for value in by_seed.values()])
    if np.isnan(numbers).any():
        raise ValueError(_NAN)
    finite = numbers[np.isfinite(numbers)]
    least, greatest = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    far = (greatest - least) or 1.0

    def test(a: str, b: str) -> PairedTest:
        x, y = ({s: min(max(v, least - far), greatest + far) for s, v in ranked[name].items()} for name in (a, b))
        common = sorted(x.keys() & y.keys())
        if len(common) >= max(minimum_seeds, 2):
            return paired_test([x[seed] - y[seed] for seed in common])
        return unpaired_test([*x.values()], [*y.values()])

    means = {name: float(np.mean([*by_seed.values()])) for name, by_seed in ranked.items()}
    ranks = _ranked(means, test, direction, level, margin, math.inf)
    return {name: ranks.get(name) for name in values}


def rank_replicates(
    point: ArrayLike,
    replicates: ArrayLike,
    direction: Direction,
    level: float = 0.95,
    seeds: int | Sequence[int] = MINIMUM_SEEDS,
    margin: float | None = None,
    limit: float = math.inf,
) -> list[Rank]:
    """Rank M methods by values point (M,), from paired bootstrap replicates (M, B) over `seeds` seeds (of each).

    This is for statistics that are not means over seeds (`bootstrap_low_error` returns replicates). They are compared
    by the logarithm of their ratio, and so is the margin. A method whose value is not below `limit` is never tied.
    """
    values, resampled = np.asarray(point, dtype=np.float64), np.asarray(replicates, dtype=np.float64)
    if values.ndim != 1 or resampled.ndim != 2 or len(resampled) != len(values) or not resampled.size:
        raise ValueError(f"point (M,) and replicates (M, B) do not fit: {values.shape}, {resampled.shape}")
    if np.isnan(values).any() or np.isnan(resampled).any():
        raise ValueError(_NAN)
    counts = np.broadcast_to(seeds, values.shape)
    if counts.min() < 2:
        raise ValueError(f"replicates need two seeds, got {counts.min()}")
    rows = dict(zip(map(str, range(len(values))), np.column_stack([resampled, values]), strict=True))

    def test(a: str, b: str) -> PairedTest:
        return log_ratio_test(rows[a], rows[b], int(min(counts[int(a)], counts[int(b)])))

    points = {name: float(row[-1]) for name, row in rows.items()}
    return [*_ranked(points, test, direction, level, margin, limit).values()]


def _ranked(
    points: Mapping[str, float],
    test: Callable[[str, str], PairedTest],
    direction: str,
    level: float,
    margin: float | None,
    limit: float,
) -> dict[str, Rank]:
    if direction not in {"min", "max"}:
        raise ValueError(f"direction must be min or max, got {direction!r}")
    sign = 1.0 if direction == "min" else -1.0
    values = sign * np.array([*points.values()])
    names, index = [*points], {name: i for i, name in enumerate(points)}
    rank = 1 + (values[None, :] < values[:, None]).sum(axis=1)
    pairs = len(names) * (len(names) - 1) // 2
    each = 1 - (1 - level) / max(pairs, 1)
    tests = {pair: test(*pair) for pair in itertools.combinations(sorted(names, key=lambda name: rank[index[name]]), 2)}
    better: NDArray[np.bool_] = np.zeros((len(names), len(names)), dtype=bool)
    for (a, b), tested in tests.items():
        better[index[a], index[b]] = tested.p < 1 - each and sign * tested.estimate < 0
    low, high = 1 + better.sum(axis=0), len(names) - better.sum(axis=1)
    best = min(names, key=lambda name: rank[index[name]], default="")

    def verdict(name: str) -> tuple[Verdict, int | None]:
        if rank[index[name]] == 1:
            return Verdict.BEST, None
        tested = tests[best, name]
        ends = tested.ends(each)
        if points[name] < limit and within(ends, margin):
            return Verdict.TIED, None
        if better[index[best], index[name]]:
            return Verdict.WORSE, None
        return Verdict.UNKNOWN, tested.seeds_to_decide(each, margin)

    return {name: Rank(int(rank[i]), int(low[i]), int(high[i]), *verdict(name)) for name, i in index.items()}


def within(ends: tuple[float | None, float | None], margin: float | None) -> bool:
    """Return whether an interval lies wholly within +-margin."""
    low, high = ends
    return margin is not None and low is not None and high is not None and -margin < low and high < margin
