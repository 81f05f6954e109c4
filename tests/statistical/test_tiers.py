"""How often equal methods are told apart, and how far apart methods must be: simulated leaderboards.

`python tests/statistical/test_tiers.py` prints the tables of docs/tiers.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from harness.analysis.diagnostics import bootstrap_low_error
from harness.analysis.diagnostics.crossing import last_crossing
from harness.analysis.statistics import rank_methods, rank_replicates
from harness.analysis.statistics.ranks import Rank

Board = Callable[[np.random.Generator, int, int], np.ndarray]
"""Values (methods, seeds) of equal methods."""

LAWS: dict[str, Board] = {
    "normal": lambda draw, m, n: draw.normal(size=(m, n)),
    "normal, shared seeds": lambda draw, m, n: draw.normal(size=(m, n)) + 3 * draw.normal(size=n),
    "t, 3 df": lambda draw, m, n: draw.standard_t(3, size=(m, n)),
    "t, 3 df, shared seeds": lambda draw, m, n: draw.standard_t(3, size=(m, n)) + 3 * draw.standard_t(3, size=n),
    "lognormal": lambda draw, m, n: np.exp(draw.normal(size=(m, n))),
    "lognormal, signed": lambda draw, m, n: np.exp(draw.normal(size=(m, n))) - 1,
    "uniform": lambda draw, m, n: draw.uniform(size=(m, n)) - 0.5,
    "two values": lambda draw, m, n: (draw.random((m, n)) < 0.5) + 1e-6 * draw.normal(size=(m, n)),
    "never in 30 %": lambda draw, m, n: np.where(draw.random((m, n)) < 0.3, np.inf, np.exp(draw.normal(size=(m, n)))),
    "unequal variances": lambda draw, m, n: draw.normal(size=(m, n)) * np.exp(1.5 * draw.normal(size=(m, 1))),
    "half 100 times wider": lambda draw, m, n: draw.normal(size=(m, n)) * np.where(np.arange(m) % 2, 100, 1)[:, None],
}
METHODS = (2, 3, 5, 10, 20, 30)
SEEDS = (5, 10, 30)
LEVEL = 0.05
FALSE_ALARM = 1e-3


def of_means(values: np.ndarray) -> list[Rank]:
    ranks = rank_methods({f"m{i}": dict(enumerate(row)) for i, row in enumerate(values)}, "min")
    return [rank for rank in ranks.values() if rank is not None]


def of_medians(values: np.ndarray) -> list[Rank]:
    """Medians over four chains a seed, from bootstrap replicates."""
    methods, size = values.shape
    chains = values[:, :, None] + np.random.default_rng(int(abs(values[0, 0]) * 1e6)).normal(size=(methods, size, 4))
    drawn = np.random.default_rng(0).integers(size, size=(1000, size))
    replicates = np.median(chains[:, drawn].reshape(methods, 1000, -1), axis=2)
    return rank_replicates(np.median(chains, axis=(1, 2)), replicates, "min", seeds=size)


def of_costs(draw: np.random.Generator, methods: int, size: int, pace: float) -> list[Rank]:
    """Data passes to low error of averages of independent draws, eight chains a seed: a Brownian motion over its time.

    At a high pace many never get there.
    """
    axis = np.unique(np.geomspace(5, 1000, 60).astype(int)).astype(float)
    seeds = np.repeat(np.arange(size), 8)
    points, replicates = [], []
    for _ in range(methods):
        steps = draw.normal(size=(size * 8, 3, len(axis))) * np.sqrt(np.diff(axis, prepend=0.0))
        luck = np.exp(0.3 * draw.normal(size=size))[seeds]
        curves = pace * luck[:, None] * ((steps.cumsum(axis=2) / axis) ** 2).max(axis=1)
        points.append(last_crossing(np.median(curves, axis=0), axis, 0.01))
        replicates.append(bootstrap_low_error(curves, axis, seeds))
    return rank_replicates(points, np.stack(replicates), "min", seeds=size)


def split(ranks: list[Rank]) -> bool:
    return max(rank.tier for rank in ranks) > 1


def told_apart(ranks: list[Rank]) -> bool:
    return any((rank.low, rank.high) != (1, len(ranks)) for rank in ranks)


def share(board: Board, methods: int, size: int, boards: int, seed: int, happens: Callable = split) -> float:
    draw = np.random.default_rng([seed, methods, size])
    return float(np.mean([happens(of_means(board(draw, methods, size))) for _ in range(boards)]))


def most(boards: int, family: int) -> float:
    """The share that a true rate of LEVEL exceeds with probability FALSE_ALARM / family."""
    return float(binom.isf(FALSE_ALARM / family, boards, LEVEL)) / boards


@pytest.mark.statistical
@pytest.mark.parametrize(("methods", "size"), [(2, 5), (10, 5), (30, 10)])
@pytest.mark.parametrize("law", ["normal", "t, 3 df, shared seeds", "lognormal"])
def test_equal_methods_seldom_get_different_tiers(law, methods, size):
    assert share(LAWS[law], methods, size, 300, seed=0) <= most(300, 9)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("size", SEEDS)
@pytest.mark.parametrize("law", LAWS)
def test_equal_methods_of_any_law_seldom_get_different_tiers(law, size):
    family = len(SEEDS) * len(LAWS) * len(METHODS)
    rates = {methods: share(LAWS[law], methods, size, 1000, seed=1) for methods in METHODS}
    assert max(rates.values()) <= most(1000, family), rates


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("size", SEEDS)
@pytest.mark.parametrize("law", ["normal", "t, 3 df, shared seeds", "lognormal", "unequal variances"])
def test_the_rank_intervals_of_equal_methods_hold_all_at_once(law, size):
    rates = {methods: share(LAWS[law], methods, size, 1000, 2, told_apart) for methods in METHODS}
    assert max(rates.values()) <= most(1000, len(SEEDS) * 4 * len(METHODS)), rates


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("size", [5, 10])
@pytest.mark.parametrize("methods", [2, 6, 15])
def test_equal_medians_and_costs_seldom_get_different_tiers(methods, size):
    draw = np.random.default_rng([3, methods, size])
    rates = {law: np.mean([split(of_medians(LAWS[law](draw, methods, size))) for _ in range(200)]) for law in MEDIANS}
    rates |= {pace: np.mean([split(of_costs(draw, methods, size, pace)) for _ in range(200)]) for pace in (1.0, 6.0)}
    assert max(rates.values()) <= most(200, 2 * 3 * 5), rates


MEDIANS = ("normal", "t, 3 df, shared seeds", "lognormal, signed")


def main() -> None:
    """The tables of docs/tiers.md: equal methods with different tiers, % of leaderboards; the difference for tiers."""
    _line("values", *(f"{n} seeds, {m} methods" for n in SEEDS for m in METHODS))
    for law, board in LAWS.items():
        _line(law, *(f"{100 * share(board, m, n, 1000, seed=4):.1f}" for n in SEEDS for m in METHODS))
    _line("seeds", *(f"{m} methods" for m in METHODS))
    for size in SEEDS:
        _line(str(size), *(f"{reach(m, size):.1f}" for m in METHODS))


def _line(*cells: str) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


def reach(methods: int, size: int) -> float:
    """By how many sds of a value over seeds one method must lead the others to lead nine in ten of them in tier."""
    low, high = 0.0, 16.0
    for _ in range(7):
        middle = (low + high) / 2
        draw = np.random.default_rng([5, methods, size])
        lower = []
        for _ in range(200):
            values = draw.normal(size=(methods, size))
            values[0] -= middle
            lower += [rank.tier > 1 for rank in of_means(values)[1:]]
        low, high = (low, middle) if np.mean(lower) >= 0.9 else (middle, high)
    return high


if __name__ == "__main__":
    sys.exit(main())
