"""How often a verdict is wrong: simulated families of comparisons, and leaderboards of equal rows.

`python tests/statistical/test_verdicts.py` prints the tables of docs/verdicts.md.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom, t

from harness.analysis.diagnostics import bootstrap_low_error
from harness.analysis.diagnostics.crossing import last_crossing, seed_counts
from harness.analysis.statistics import Verdict, bootstrap_interval, holm, rank_methods, rank_replicates, tests
from harness.analysis.statistics.ranks import Rank
from harness.analysis.statistics.tests import FEWEST_RARE
from harness.reporting.scoring.compare import Comparison, PairOutcome, compare_values, judge

LEVEL = 0.05
FALSE_ALARM = 1e-3
MARGIN = 0.4

Law = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
LAWS: dict[str, Law] = {
    "normal": lambda draw, shape: draw.normal(size=shape),
    "t, 3 df": lambda draw, shape: draw.standard_t(3, size=shape) / np.sqrt(3),
    "lognormal": lambda draw, shape: (np.exp(draw.normal(size=shape)) - np.exp(0.5)) / 2.16,
    "exponential": lambda draw, shape: draw.exponential(size=shape) - 1,
    "two values": lambda draw, shape: 2.0 * (draw.random(shape) < 0.5) - 1 + 1e-3 * draw.normal(size=shape),
}
"""Values over seeds, of mean 0 and sd 1."""
FAMILIES = {
    "equal": [0.0],
    "equivalent": [0.0, 0.1, 0.3],
    "at the margin": [MARGIN],
    "different": [0.6, 1.0, 3.0],
    "mixed": [0.0, 0.1, MARGIN, 1.0, 3.0],
    "one equal, the rest at the margin": [0.0, *[MARGIN] * 54],
}
"""The true differences of pairs, which are repeated."""
SPREADS = (0.05, 0.3, 1.0)
SEEDS = (3, 5, 10, 40)


def family(
    draw: np.random.Generator, law: str, truths: list[float], size: int, seeds: int, of_b: float = 1.0
) -> list[Comparison]:
    """Judged pairs with these true differences.

    Their values share a seed's effect, and have sds of `SPREADS` in turn, B's multiplied by `of_b`: if it is not 1, the
    differences of skewed values are skewed.
    """
    comparisons = []
    for i, delta in enumerate(np.resize(truths, size)):
        spread = SPREADS[i % len(SPREADS)]
        a, b = spread * np.array([[1.0], [of_b]]) * LAWS[law](draw, (2, seeds)) + draw.normal(size=seeds)
        comparison = compare_values(dict(enumerate(a + delta)), dict(enumerate(b)), "max")
        comparisons.append(Comparison(**{**vars(comparison), "margin": MARGIN}))
    return judge(comparisons)


def is_wrong(comparison: Comparison, truth: float) -> bool:
    """Whether the outcome is wrong, or the difference is not as large as the nearer end says."""
    if comparison.outcome == PairOutcome.EQUIVALENT:
        return truth >= MARGIN
    if comparison.outcome == PairOutcome.BETTER:
        return truth <= 0 or comparison.low > truth
    return comparison.outcome == PairOutcome.WORSE


def wrong_share(law: str, kind: str, size: int, seeds: int, times: int, seed: int = 0, of_b: float = 1.0) -> float:
    """The share of families with a wrong statement."""
    draw, truths = np.random.default_rng([seed, size, seeds]), FAMILIES[kind]
    wrong = 0
    for _ in range(times):
        judged = family(draw, law, truths, size, seeds, of_b)
        wrong += any(map(is_wrong, judged, np.resize(truths, size)))
    return wrong / times


def most(times: int, tests: int) -> float:
    """The share that a true rate of LEVEL exceeds with probability FALSE_ALARM / tests."""
    return float(binom.isf(FALSE_ALARM / tests, times, LEVEL)) / times


@pytest.mark.statistical
@pytest.mark.parametrize("seeds", [3, 10])
@pytest.mark.parametrize("kind", ["equal", "at the margin", "mixed"])
@pytest.mark.parametrize("law", ["normal", "lognormal", "two values"])
def test_a_family_seldom_has_a_wrong_statement(law, kind, seeds):
    assert wrong_share(law, kind, 6, seeds, 200) <= most(200, 18)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("size", [1, 3, 20, 55])
@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("law", LAWS)
def test_a_family_of_any_law_seldom_has_a_wrong_statement(law, kind, size):
    rates = {seeds: wrong_share(law, kind, size, seeds, 500, seed=1) for seeds in SEEDS}
    assert max(rates.values()) <= most(500, len(LAWS) * len(FAMILIES) * 4 * len(SEEDS)), rates


@pytest.mark.statistical
def test_intervals_at_the_levels_of_holms_method_would_not_do():
    """Why all pairs have one level: of a pair that differs, Holm's level says nothing of where the interval ends."""
    draw, size, seeds, wrong = np.random.default_rng(2), 55, 20, 0
    for _ in range(300):
        d = MARGIN + 0.1 * draw.normal(size=(size, seeds))
        mean, error = d.mean(axis=1), d.std(axis=1, ddof=1) / np.sqrt(seeds)
        p = 2 * t.sf(np.abs(mean) / error, seeds - 1)
        rank, stops = p.argsort().argsort(), sum(adjusted < LEVEL for adjusted in holm(p.tolist()))
        levels = LEVEL / np.maximum(size - np.minimum(rank, stops), 1)
        half = t.isf(levels / 2, seeds - 1) * error
        wrong += ((mean + half < MARGIN) & (mean - half > -MARGIN)).any()
    assert wrong / 300 > most(300, 1)


def test_a_false_statement_is_seen():
    """The checks above can fail: with an interval that is too short, families have wrong statements too often."""
    draw, wrong = np.random.default_rng(3), 0
    for _ in range(100):
        judged = [judge([one])[0] for one in family(draw, "normal", [0.0, MARGIN], 20, 10)]  # each at 95 % for itself
        wrong += any(map(is_wrong, judged, np.resize([0.0, MARGIN], 20)))
    assert wrong / 100 > most(100, 1)


Board = Callable[[np.random.Generator, int, int], np.ndarray]
"""Values (methods, seeds) of equal methods."""
BOARDS: dict[str, Board] = {
    "normal": lambda draw, m, n: draw.normal(size=(m, n)),
    "t, 3 df, shared seeds": lambda draw, m, n: draw.standard_t(3, size=(m, n)) + 3 * draw.standard_t(3, size=n),
    "lognormal": lambda draw, m, n: np.exp(draw.normal(size=(m, n))),
    "two values": lambda draw, m, n: (draw.random((m, n)) < 0.5) + 1e-6 * draw.normal(size=(m, n)),
    "never in 30 %": lambda draw, m, n: np.where(draw.random((m, n)) < 0.3, np.inf, np.exp(draw.normal(size=(m, n)))),
    "unequal variances": lambda draw, m, n: draw.normal(size=(m, n)) * np.exp(1.5 * draw.normal(size=(m, 1))),
    "half 100 times wider": lambda draw, m, n: draw.normal(size=(m, n)) * np.where(np.arange(m) % 2, 100, 1)[:, None],
}
METHODS = (2, 5, 10, 30)
BOARD_SEEDS = (5, 10)


def of_means(values: np.ndarray) -> list[Rank]:
    ranks = rank_methods({f"m{i}": dict(enumerate(row)) for i, row in enumerate(values)}, "min")
    return [rank for rank in ranks.values() if rank is not None]


def of_medians(values: np.ndarray) -> list[Rank]:
    """Medians over four chains a seed, from bootstrap replicates; those of logarithms, so that they are positive."""
    methods, size = values.shape
    chains = values[:, :, None] + np.random.default_rng(int(abs(values[0, 0]) * 1e6)).normal(size=(methods, size, 4))
    drawn = np.random.default_rng(0).integers(size, size=(1000, size))
    replicates = np.exp(np.median(chains[:, drawn].reshape(methods, 1000, -1), axis=2))
    return rank_replicates(np.exp(np.median(chains, axis=(1, 2))), replicates, "min", seeds=size)


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


def told_apart(ranks: list[Rank]) -> bool:
    """Whether any row is called worse than any other."""
    return any((rank.low, rank.high) != (1, len(ranks)) or rank.verdict == Verdict.WORSE for rank in ranks)


def apart_share(board: Board, methods: int, size: int, boards: int, seed: int) -> float:
    draw = np.random.default_rng([seed, methods, size])
    return float(np.mean([told_apart(of_means(board(draw, methods, size))) for _ in range(boards)]))


@pytest.mark.statistical
@pytest.mark.parametrize(("methods", "size"), [(2, 5), (10, 5), (15, 10)])
@pytest.mark.parametrize("law", ["normal", "t, 3 df, shared seeds", "lognormal"])
def test_equal_methods_are_seldom_called_different(law, methods, size):
    assert apart_share(BOARDS[law], methods, size, 150, seed=0) <= most(150, 9)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("size", BOARD_SEEDS)
@pytest.mark.parametrize("law", BOARDS)
def test_equal_methods_of_any_law_are_seldom_called_different(law, size):
    tests = len(BOARD_SEEDS) * len(BOARDS) * len(METHODS)
    rates = {methods: apart_share(BOARDS[law], methods, size, 500, seed=1) for methods in METHODS}
    assert max(rates.values()) <= most(500, tests), rates


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("size", BOARD_SEEDS)
@pytest.mark.parametrize("methods", [2, 6, 15])
def test_equal_medians_and_costs_are_seldom_called_different(methods, size):
    draw = np.random.default_rng([3, methods, size])
    laws = ("normal", "t, 3 df, shared seeds", "unequal variances")
    rates = {
        law: np.mean([told_apart(of_medians(BOARDS[law](draw, methods, size))) for _ in range(200)]) for law in laws
    }
    rates |= {
        pace: np.mean([told_apart(of_costs(draw, methods, size, pace)) for _ in range(200)]) for pace in (1.0, 6.0)
    }
    assert max(rates.values()) <= most(200, 2 * 3 * 5), rates


RARE = {"of seeds, 1 %": (0.01, 1), "5 %": (0.05, 1), "10 %": (0.1, 1), "30 %": (0.3, 1), "of chains, 5 %": (0.05, 8)}
"""How often a seed or a chain of it fails, and how many chains may fail one by one."""


def rarely_failing(draw: np.random.Generator, rare: str, methods: int, size: int, *, signed: bool = True) -> list[Rank]:
    """Ranks of equal rows whose error is 50 times as large where a seed, or one of its eight chains, fails."""
    share, chains = RARE[rare]
    errors = np.where(
        draw.random((methods, size, chains)) < share, 1.0, 0.02 * draw.gamma(8, 1 / 8, (methods, size, 1))
    )
    by_seed = errors.mean(axis=2)
    of_seed = [dict(enumerate(row)) for row in by_seed] if signed else None
    replicates = by_seed @ seed_counts(size).T / size
    return rank_replicates(by_seed.mean(axis=1), replicates, "min", seeds=size, by_seed=of_seed)


def split_share(rare: str, methods: int, size: int, boards: int, *, signed: bool = True) -> float:
    draw = np.random.default_rng([8, methods, size])
    return float(np.mean([told_apart(rarely_failing(draw, rare, methods, size, signed=signed)) for _ in range(boards)]))


WORSE = {"10 % of seeds": (0.1, 1), "2 % of chains": (0.02, 8)}
"""How often a row fails whose error is ten times that of the others, and how many chains may fail one by one."""


def ten_times_worse(draw: np.random.Generator, law: str, methods: int, size: int) -> list[Rank]:
    """Ranks of equal rows and, first, one that is better by a factor .7 except where it fails, and ten times worse."""
    share, chains = WORSE[law]
    errors = np.repeat(0.02 * draw.gamma(8, 1 / 8, (methods, size, 1)), chains, axis=2)
    errors[0] = np.where(draw.random((size, chains)) < share, (10 - 0.7 * (1 - share)) * 0.02 / share, 0.7 * errors[0])
    by_seed = errors.mean(axis=2)
    replicates = by_seed @ seed_counts(size).T / size
    of_seed = [dict(enumerate(row)) for row in by_seed]
    return rank_replicates(by_seed.mean(axis=1), replicates, "min", seeds=size, margin=MARGIN, by_seed=of_seed)


def turned_share(law: str, methods: int, size: int, boards: int) -> float:
    """The share of leaderboards that call the worse row better than another, or equivalent to the best."""
    draw, turned = np.random.default_rng([10, methods, size]), 0
    for _ in range(boards):
        first, *others = ten_times_worse(draw, law, methods, size)
        tied = first.verdict == Verdict.TIED or any(first.rank == 1 and one.verdict == Verdict.TIED for one in others)
        turned += first.high < methods or tied
    return turned / boards


@pytest.mark.parametrize("law", WORSE)
def test_a_row_that_is_ten_times_worse_by_rare_failures_is_seldom_called_better(law):
    assert turned_share(law, 2, FEWEST_RARE, 100) <= most(100, 2)
    assert 0.9**FEWEST_RARE < LEVEL < 0.9 ** (FEWEST_RARE - 2), "the share of rows that fail in 10 %, and showed none"


def test_with_ten_seeds_it_would_be_called_better(monkeypatch):
    monkeypatch.setattr(tests, "FEWEST_RARE", 3)
    assert turned_share("10 % of seeds", 2, 10, 200) > most(200, 1)


def covered_share(law: str, size: int, rows: int) -> float:
    """The share of rows whose 95 % interval contains the true joint error, which is 50 times as large in failures."""
    (share, chains), draw, times = WORSE[law], np.random.default_rng([11, size]), seed_counts(size)
    covered = 0
    for _ in range(rows):
        failed = draw.random((size, chains)) < share
        errors = np.where(failed, 1.0, 0.02 * draw.gamma(8, 1 / 8, (size, 1))).mean(axis=1)
        low, high = bootstrap_interval(errors.mean(), times @ errors / size, size)
        covered += low <= share + 0.02 * (1 - share) <= high
    return covered / rows


@pytest.mark.parametrize("law", WORSE)
def test_from_the_fewest_seeds_on_an_interval_of_rare_failures_covers(law):
    assert 1 - covered_share(law, FEWEST_RARE, 300) <= most(300, 2)
    assert covered_share(law, 5, 300) < 0.65


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("size", [5, 10, 20, 30, 40])
@pytest.mark.parametrize("methods", [2, 5, 10, 40])
def test_a_row_that_is_ten_times_worse_is_seldom_called_better_at_any_size(methods, size):
    boards = 200 if methods < 40 else 40
    rates = {law: turned_share(law, methods, size, boards) for law in WORSE}
    assert max(rates.values()) <= most(boards, 40), rates


@pytest.mark.statistical
@pytest.mark.parametrize(
    "rare", ["5 %", *(pytest.param(rare, marks=pytest.mark.slow) for rare in ("10 %", "of chains, 5 %"))]
)
def test_equal_rows_that_fail_rarely_are_seldom_called_different(rare):
    assert split_share(rare, 10, FEWEST_RARE, 60) <= most(60, 3)


@pytest.mark.statistical
@pytest.mark.parametrize("size", [FEWEST_RARE, 40])
def test_rows_that_lose_a_mode_alike_are_seldom_called_different(size):
    """Counts of modes, which tie: 25, or 24 in a fifth of the seeds."""
    draw = np.random.default_rng([9, size])
    boards = [25.0 - (draw.random((2, size)) < 0.2) for _ in range(300)]
    ranked = [rank_methods({k: dict(enumerate(row)) for k, row in enumerate(b)}, "max", rare=True) for b in boards]
    assert np.mean([told_apart(list(ranks.values())) for ranks in ranked]) <= most(300, 2)


@pytest.mark.statistical
def test_without_signed_ranks_rows_that_fail_rarely_are_called_different():
    assert split_share("10 %", 10, 20, 60, signed=False) > most(60, 1)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("size", [5, 10, 20, 40])
def test_equal_rows_that_fail_rarely_are_seldom_called_different_at_any_size(size):
    rates = {(rare, m): split_share(rare, m, size, 200) for rare in RARE for m in (2, 10, 20)}
    assert max(rates.values()) <= most(200, 4 * len(rates)), rates


def main() -> None:
    """The tables of docs/verdicts.md, in %: families with a wrong statement, boards that call equal rows different."""
    columns = [(size, seeds) for size in (3, 20) for seeds in SEEDS]
    _line("true differences", "values", *(f"{size} pairs, {seeds} seeds" for size, seeds in columns))
    for kind, law, of_b in itertools.product(("equal", "at the margin", "mixed"), LAWS, (1.0, 0.3)):
        if of_b == 1 or kind == "mixed":
            rates = (wrong_share(law, kind, *column, 200, seed=4, of_b=of_b) for column in columns)
            _line(kind, f"{law}{', B varies less' if of_b < 1 else ''}", *(f"{100 * rate:.1f}" for rate in rates))
    _line("values over seeds", *(f"{n} seeds, {m} rows" for n in BOARD_SEEDS for m in METHODS))
    for law, board in BOARDS.items():
        _line(law, *(f"{100 * apart_share(board, m, n, 200, seed=4):.1f}" for n in BOARD_SEEDS for m in METHODS))
    tests.FEWEST_RARE = 3
    sizes = [(n, m, signed) for m in (2, 20) for n in (10, 20) for signed in (False, True)]
    _line("failures", *(f"{m} rows, {n} seeds, {'signed ranks' if signed else 't alone'}" for n, m, signed in sizes))
    for rare in RARE:
        _line(rare, *(f"{100 * split_share(rare, m, n, 100, signed=signed):.0f}" for n, m, signed in sizes))
    _line("failures", *(f"{m} rows, {n} seeds" for m in (2, 5) for n in (10, 20, 30, 40)))
    for law in WORSE:
        _line(law, *(f"{100 * turned_share(law, m, n, 200):.0f}" for m in (2, 5) for n in (10, 20, 30, 40)))


def _line(*cells: str) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
