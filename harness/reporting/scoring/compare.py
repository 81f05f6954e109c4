"""Two groups by one metric, paired by seed: RULES.md 4 and 5 as code. Verbs, reports, nights and claims all use this.

    family = [compare(a, b, "modes_covered"), compare(a, b, "passes_to_low_error", curves)]
    for comparison in judge(family):         # all intervals of the family hold at once
        comparison.outcome                   # BETTER, WORSE, EQUIVALENT or UNDECIDED, of A

A and B are groups of runs: two samplers, or one sampler in two nights. A task's metric has a value for each seed, and
the mean difference is tested. The joint error, data passes to low error and ess_mse are statistics over chains x seeds,
and their ratio is tested, by a bootstrap that resamples the seeds of both groups together. p and the interval come from
one test. For a family of m comparisons the interval has the level 1 - .05 / m, and the outcome follows from it alone.

The joint errors of each seed's own chains are not used, because they measure something else: an average over fewer
chains has a larger maximum over directions, and how much larger depends on the sampler.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from harness.analysis.diagnostics.crossing import MINIMUM_CHAINS
from harness.analysis.statistics import PairedTest, log_ratios, paired_test, with_signed_ranks, within
from harness.analysis.statistics.tests import unpaired_test
from harness.reporting.scoring.accuracy import (
    ERRORS,
    ESS_CURVES,
    ESS_MSE,
    FAILED,
    FARTHEST,
    JOINT,
    LOW_ERROR,
    LOW_ERROR_CURVES,
    LOW_ERROR_VERSION,
    MARGINS,
    MEDIAN,
    MODES,
    chain_errors,
    failed_shares,
)
from harness.reporting.scoring.estimates import Curves
from harness.reporting.scoring.groups import Group, Run
from harness.reporting.scoring.ratios import SeedRows, on_axis, ratio_test, statistic
from harness.reporting.scoring.record import divergence
from harness.results.records import Status

LEVEL = 0.05
FEWEST = 3
"""Fewest pairs for a test."""

Side = Literal["a", "b", ""]
Scale = Literal["difference", "ratio"]
CURVES_OF = {JOINT: ERRORS, MEDIAN: ERRORS, FAILED: ERRORS, LOW_ERROR: LOW_ERROR_CURVES, ESS_MSE: ESS_CURVES}
"""The statistics over chains x seeds, each with the curves from which it is computed."""
_ABOUT = {LOW_ERROR: (LOW_ERROR_VERSION, "data passes", "min"), ESS_MSE: (1, "draws", "max")}


class PairOutcome(StrEnum):
    """What the seeds say of A against B."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Comparison:
    """A against B by one metric.

    pairs      the seeds that count: both have a value
    a, b       the means over them, or the statistics
    effect     a - b averaged over the pairs (if direction is "target", of the distances from it); if `scale` is
               "ratio", a / b, and inf if only B reaches low error; None if there is nothing to compare
    tested     the test of "no difference", of the logarithm if `scale` is "ratio"; None if there are too few seeds
    margin     within which A and B are equivalent: a difference, or the logarithm of a factor; None if none is declared
    unpaired   seed -> why it does not count: "A diverged at step 120, chain 2"
    withheld   the reason for giving no verdict, whatever the test says; "" if there is none
    family     how many comparisons are judged together; set by `judge`, and so are the rest
    low, high  ends of the interval at `level`; None without a test, or if the test cannot reject any value
    outcome    EQUIVALENT if the interval lies within the margin; else BETTER or WORSE if it excludes "no difference";
               else, or if the verdict is withheld, UNDECIDED
    """

    metric: str
    version: int
    unit: str
    direction: str
    target: float | None
    pairs: tuple[int, ...] = ()
    a: float | None = None
    b: float | None = None
    effect: float | None = None
    scale: Scale = "difference"
    tested: PairedTest | None = None
    margin: float | None = None
    unpaired: Mapping[int, str] = field(default_factory=dict)
    withheld: str = ""
    family: int = 1
    low: float | None = None
    high: float | None = None
    outcome: PairOutcome = PairOutcome.UNDECIDED

    @property
    def level(self) -> float:
        """The level of the interval: with it, all intervals of the family hold at once in 95 % of families."""
        return 1 - LEVEL / self.family

    @property
    def p(self) -> float | None:
        """p of "no difference"; None without a test."""
        return self.tested.p if self.tested else None

    @property
    def adjusted(self) -> float | None:
        """p times the number of comparisons in the family: below .05 exactly where the interval excludes nothing."""
        return min(1.0, self.tested.p * self.family) if self.tested else None

    @property
    def favours(self) -> Side:
        """The side that the effect favours, by the metric's direction; "" for neither."""
        even = 1.0 if self.scale == "ratio" else 0.0
        if self.effect is None or self.effect == even or (self.direction == "target" and self.target is None):
            return ""
        return "a" if (self.effect > even) == (self.direction == "max") else "b"

    @property
    def nearer(self) -> float | None:
        """The end of the interval that is nearer to "no difference", if A is better or worse: it differs that much."""
        if self.outcome not in (PairOutcome.BETTER, PairOutcome.WORSE):
            return None
        even = 1.0 if self.scale == "ratio" else 0.0
        return self.low if self.effect is not None and self.effect > even else self.high

    @property
    def detectable(self) -> float | None:
        """The least difference that so many seeds show with probability 0.8; if `scale` is "ratio", the factor."""
        return _effect(self.tested.detectable(self.level), self.scale) if self.tested else None

    @property
    def seeds_to_decide(self) -> int | None:
        """How many seeds would decide, with probability 0.8, what these show; None if 10,000 are too few."""
        return self.tested.seeds_to_decide(self.level, self.margin) if self.tested else None

    def chance_to_decide(self, seeds: int) -> float:
        """Return the probability that so many new seeds decide, over what these leave open; 0 without a test."""
        return self.tested.chance_to_decide(seeds, self.level, self.margin) if self.tested else 0.0

    def record(self) -> dict[str, Any]:
        """Return its numbers as fields of a flat record."""
        names = ("scale", "effect", "low", "high", "level", "p", "adjusted", "nearer", "detectable", "seeds_to_decide")
        return {
            **{name: getattr(self, name) for name in names},
            "pairs": len(self.pairs),
            "outcome": str(self.outcome) if self.effect is not None else None,
            "interval": self.tested.interval if self.tested else "none",
            "test": self.tested.method if self.tested else None,
        }


def judge(family: Sequence[Comparison], size: int | None = None) -> list[Comparison]:
    """Return the comparisons, in order, with their intervals and outcomes.

    The level is shared by all that were tested, or by `size` comparisons if so many were declared.
    """
    m = max(1, size or sum(comparison.tested is not None for comparison in family))
    return [_judged(replace(comparison, family=m)) for comparison in family]


def _judged(comparison: Comparison) -> Comparison:
    if comparison.tested is None:
        return comparison
    ends = comparison.tested.ends(comparison.level)
    low, high = (None if end is None else _effect(end, comparison.scale) for end in ends)
    outcome = PairOutcome.UNDECIDED
    if not comparison.withheld and within(ends, comparison.margin):
        outcome = PairOutcome.EQUIVALENT
    elif not comparison.withheld and comparison.tested.p < 1 - comparison.level:
        outcome = {"a": PairOutcome.BETTER, "b": PairOutcome.WORSE, "": PairOutcome.UNDECIDED}[comparison.favours]
    return replace(comparison, low=low, high=high, outcome=outcome)


def compare_values(
    a: Mapping[int, float],
    b: Mapping[int, float],
    direction: str,
    target: float | None = None,
    *,
    scale: Scale = "difference",
    test: Callable[[Sequence[float]], PairedTest] = paired_test,
) -> Comparison:
    """Compare values by seed, on the seeds that both sides have: a mean difference, or a ratio of geometric means.

    `direction` says whether larger ("max") or smaller ("min") values are better, or that the distances from `target`
    are compared ("target"). The test is a paired t test; with fewer than three pairs there is none. A difference of
    sides without a common seed is tested without pairing. Raises ValueError for differences that are not finite.
    """
    pairs = tuple(sorted(a.keys() & b.keys()))
    comparison = Comparison("", 1, "", direction, target, pairs, scale=scale)
    if not pairs and (scale == "ratio" or min(len(a), len(b)) < FEWEST):
        return replace(comparison, withheld="no seed of which both have a value")
    x, y = ([side[seed] for seed in pairs or side] for side in (a, b))
    comparison = replace(comparison, a=sum(x) / len(x), b=sum(y) / len(y))
    if direction == "target" and target is not None:
        x, y = ([abs(value - target) for value in side] for side in (x, y))
    if not pairs:
        tested = unpaired_test(x, y)
        comparison = replace(comparison, effect=tested.estimate)
    else:
        differences = log_ratios(x, y).tolist() if scale == "ratio" else [i - j for i, j in zip(x, y, strict=True)]
        comparison = replace(comparison, effect=_effect(float(np.mean(differences)), scale))
        if len(pairs) < FEWEST:
            return _too_few(comparison)
        tested = test(differences)
    if scale == "ratio":
        tested = replace(tested, method=f"{tested.method}, of log ratios by seed")
    aimless = "the metric has no best value" if direction == "target" and target is None else ""
    return replace(comparison, tested=tested, withheld=aimless)


def _effect(value: float, scale: Scale) -> float:
    if scale == "ratio":
        return math.exp(value) if value < 700 else math.inf
    return value


def _too_few(comparison: Comparison) -> Comparison:
    noun = "pair" if len(comparison.pairs) == 1 else "pairs"
    return replace(comparison, withheld=f"{len(comparison.pairs)} {noun} of seeds: a verdict needs {FEWEST}")


def compare(a: Group, b: Group, metric: str, curves: Curves | None = None) -> Comparison | None:
    """Compare a metric of two groups, paired by seed. Returns None if neither group has the metric.

    Groups without a common seed are compared without pairing. On a task with several modes the test is also by signed
    ranks, and groups without pairs are not told apart. A seed that one side has not run is left out. A seed
    on which a side failed, diverged or has no value is left out too, and the verdict is withheld. Data passes to low
    error are a median, so there the chains of a diverged run count as chains that never reach low error. Only the
    statistics over chains x seeds need `curves` (`load_curves`).
    """
    if metric == FAILED:
        return _by_failed_chains(a, b, curves or {})
    if metric in CURVES_OF:
        return _by_statistic(a, b, metric, curves or {})
    known = [value for group in (a, b) if (value := group.metrics().get(metric)) is not None]
    if not known:
        return None
    newest = max(known, key=lambda value: value.version)
    sides = _read(a, b, lambda run: _value(run, metric, newest.version))
    test = _test_of_modes if MODES in a.readings else paired_test
    comparison = compare_values(sides.a, sides.b, newest.direction, newest.target, test=test)
    if comparison.tested and not comparison.pairs and MODES in a.readings:
        comparison = replace(comparison, tested=with_signed_ranks(comparison.tested, [0.0]))
    return _about(comparison, sides, metric, newest.version, newest.unit)


def _test_of_modes(differences: Sequence[float]) -> PairedTest:
    return with_signed_ranks(paired_test(differences), differences)


@dataclass(frozen=True)
class _Missing:
    """Why a run has no value; `outcome` is the category that it is counted in, if it was run."""

    text: str
    outcome: str = ""


@dataclass(frozen=True)
class _Sides:
    """The values of each side by seed, why the other seeds do not count, and reasons to withhold a verdict."""

    a: dict[int, Any]
    b: dict[int, Any]
    unpaired: Mapping[int, str]
    against: Sequence[str]


def _read(a: Group, b: Group, read: Callable[[Run], Any]) -> _Sides:
    """The result of `read` for each run of both groups; `read` returns a `_Missing` for a missing value."""
    by_side: list[dict[int, Any]] = [{}, {}]
    unpaired: dict[int, list[str]] = {}
    outcomes: Counter[tuple[str, str, int]] = Counter()
    sides = [{run.seed: run for run in group.runs} for group in (a, b)]
    for seed in sorted({*sides[0], *sides[1]}):
        for name, runs, values in zip("AB", sides, by_side, strict=True):
            value = read(runs[seed]) if seed in runs else _Missing("was not run")
            if not isinstance(value, _Missing):
                values[seed] = value
                continue
            unpaired.setdefault(seed, []).append(f"{name} {value.text}")
            outcomes[name, value.outcome, len(runs)] += bool(value.outcome)
    against = [f"{name} {what} in {n} of {total} seeds" for (name, what, total), n in outcomes.items() if n]
    return _Sides(by_side[0], by_side[1], {seed: ", ".join(texts) for seed, texts in unpaired.items()}, against)


def _about(comparison: Comparison, sides: _Sides, metric: str, version: int, unit: str) -> Comparison:
    missing = sides.unpaired if comparison.pairs or not comparison.tested else {}
    return replace(
        comparison, metric=metric, version=version, unit=unit, unpaired=missing, margin=MARGINS.get(metric),
        withheld="; ".join([*sides.against, *filter(None, [comparison.withheld])]),
    )  # fmt: skip


def _value(run: Run, metric: str, version: int) -> float | _Missing:
    if run.status == Status.DIVERGED:
        return _Missing(divergence(run), Status.DIVERGED)
    if run.status != Status.DONE:
        return _Missing(f"failed ({run.status}); --retry runs it again", "failed")
    value = run.metrics.get(metric)
    if value is None:
        return _Missing("has no record of the metric; `bench rescore` may add it")
    if value.version != version:
        return _Missing(
            f"has version {value.version} of the metric, not {version}; `bench rescore` may bring it up to date"
        )
    return value.value if value.value is not None else _Missing("has no value", "has no value")


def _curves(run: Run, metric: str, curves: Curves) -> tuple[SeedRows, SeedRows] | _Missing | None:
    """Return the points and the curves (C, k, n) of a run, or None if it diverged and its chains count."""
    names = CURVES_OF[metric]
    if run.status == Status.DIVERGED:
        return None if metric == LOW_ERROR else _Missing(divergence(run), Status.DIVERGED)
    if run.status != Status.DONE:
        return _Missing(f"failed ({run.status}); --retry runs it again", "failed")
    if not all((run.attempt, name) in curves for name in names):
        return _Missing("has no curves of it")
    by_name = [curves[run.attempt, name] for name in names]
    return by_name[0][0], np.stack([y for _, y in by_name], axis=1)


def _by_failed_chains(a: Group, b: Group, curves: Curves) -> Comparison | None:
    """Compare the shares of failed chains by seed. Returns None if neither group has the curves of its errors."""
    sides = _read(a, b, lambda run: _curves(run, FAILED, curves))
    if not sides.a and not sides.b:
        return None
    shares = [
        failed_shares({seed: chain_errors(rows[:, 0]) for seed, (_, rows) in side.items()}) if side else {}
        for side in (sides.a, sides.b)
    ]
    comparison = compare_values(shares[0], shares[1], "min", test=_test_of_modes)
    return _about(comparison, sides, FAILED, 1, "1")


def _by_statistic(a: Group, b: Group, metric: str, curves: Curves) -> Comparison | None:
    """Compare a statistic over chains x seeds. Returns None if neither group has its curves.

    The verdict is withheld if there are too few chains x seeds, or if neither side ever reaches low error.
    """
    names = CURVES_OF[metric]
    if not any((run.attempt, name) in curves for name in names for group in (a, b) for run in group.done):
        return None
    version, unit, direction = _ABOUT.get(metric, (1, "1", "min"))
    sides = _read(a, b, lambda run: _curves(run, metric, curves))
    pairs = tuple(sorted(sides.a.keys() & sides.b.keys()))
    seeds = [pairs or sorted(side) for side in (sides.a, sides.b)]
    curves_of = [[side[seed] for seed in of] for side, of in zip((sides.a, sides.b), seeds, strict=True)]
    known = [points[0] for side in curves_of for points in side if points is not None] if all(seeds) else []
    comparison = Comparison("", 1, "", direction, None, pairs if known else (), scale="ratio")
    if not known:
        sides = replace(sides, unpaired={**sides.unpaired, **dict.fromkeys(pairs, "A and B diverged")})
        comparison = replace(comparison, withheld="no seed of which both have the curves")
    else:
        axis = np.unique(np.concatenate(known))
        rows = [
            [on_axis(of_seed, axis, group.chains, len(names), metric) for of_seed in side]
            for side, group in zip(curves_of, (a, b), strict=True)
        ]
        comparison = _of_rows(comparison, metric, axis, *rows)
        if comparison.tested and MODES in a.readings and metric == JOINT:
            both = zip(*rows, strict=True) if pairs else ()
            each = [[min(float(statistic(side, axis, metric)), FARTHEST) for side in pair] for pair in both]
            differences = [of_a - of_b for of_a, of_b in each]
            comparison = replace(comparison, tested=with_signed_ranks(comparison.tested, differences or [0.0]))
    return _about(comparison, sides, metric, version, unit)


def _of_rows(
    comparison: Comparison, metric: str, axis: SeedRows, a: Sequence[SeedRows], b: Sequence[SeedRows]
) -> Comparison:
    """Complete the comparison from the curves of each seed's chains, both sides on one axis."""
    if metric == LOW_ERROR and (count := sum(map(len, a))) < MINIMUM_CHAINS:
        return replace(comparison, withheld=f"needs {MINIMUM_CHAINS} chains x seeds, has {count}")
    whole = [statistic(np.concatenate(side), axis, metric) for side in (a, b)]
    comparison = replace(comparison, a=whole[0], b=whole[1])
    if not any(map(math.isfinite, whole)) or not all(end > 0 for end in whole):
        return replace(comparison, withheld="one of them is zero" if metric == ESS_MSE else "neither reaches low error")
    comparison = replace(comparison, effect=_ratio(*whole))
    if min(len(a), len(b)) < FEWEST:
        return _too_few(comparison)
    return replace(comparison, tested=ratio_test(metric, axis, a, b, paired=bool(comparison.pairs)))


def _ratio(x: float, y: float) -> float:
    """Return x / y; two infinite values are equal."""
    if x == y:
        return 1.0
    return math.inf if y == 0 or math.isinf(x) else x / y
