"""Two groups by a statistic over chains x seeds, paired by seed: its ratio, with a bootstrap interval over seeds.

The bootstrap draws seeds jointly. What is tested is the log ratio of the statistic of each seed's own chains, as any
paired difference is. A diverged chain counts as one that never gets there. (To swap labels within seeds and take the
statistic of all would test the same, but the medians of whole groups tie so often that it finds nothing.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.analysis.diagnostics import bootstrap_low_error
from harness.analysis.diagnostics.crossing import MINIMUM_CHAINS, THRESHOLD, last_crossing
from harness.analysis.statistics import PERMUTATION_SEEDS, bootstrap_interval, paired_test
from harness.reporting.scoring.accuracy import (
    ERRORS,
    ESS_CURVES,
    ESS_MSE,
    JOINT,
    LOW_ERROR,
    LOW_ERROR_CURVES,
    LOW_ERROR_VERSION,
    median_size,
    worst,
)
from harness.reporting.scoring.comparison import FEWEST, Comparison, too_few
from harness.reporting.scoring.estimates import Curves, resampled_means
from harness.reporting.scoring.groups import Group

Rows = NDArray[np.float64]
Statistic = Callable[[Rows], float]
_CURVES = {JOINT: ERRORS, LOW_ERROR: LOW_ERROR_CURVES, ESS_MSE: ESS_CURVES}
_ABOUT = {JOINT: (1, "1", "min"), LOW_ERROR: (LOW_ERROR_VERSION, "data passes", "min"), ESS_MSE: (1, "draws", "max")}
_OF_SQUARES = {JOINT: worst, ESS_MSE: median_size}
"""What a statistic of squared errors is, from their means."""
STATISTICS = tuple(_CURVES)


@dataclass(frozen=True)
class _Seeds:
    """The rows of each seed that counts, of both sides on one axis, and why the others do not count."""

    a: Sequence[Rows]
    b: Sequence[Rows]
    axis: Rows
    pairs: tuple[int, ...]
    unpaired: dict[int, str]


def compare_overall(a: Group, b: Group, metric: str, curves: Curves) -> Comparison | None:
    """A / B of one of `STATISTICS`; None where neither group has its curves.

    Withheld where chains x seeds are fewer than the statistic needs, where neither side ever gets to low error, and
    where the seeds taken one by one speak for the other side.
    """
    names = _CURVES[metric]
    if not any((run.attempt, name) in curves for name in names for group in (a, b) for run in group.done):
        return None
    version, unit, direction = _ABOUT[metric]
    seeds = _paired(a, b, names, curves, stepwise=metric == LOW_ERROR)
    made = Comparison(metric, version, unit, direction, None, seeds.pairs, scale="ratio", unpaired=seeds.unpaired)
    count = sum(map(len, seeds.a))
    if not seeds.pairs:
        return replace(made, withheld="no seed of which both have the curves")
    if metric == LOW_ERROR and count < MINIMUM_CHAINS:
        return replace(made, withheld=f"needs {MINIMUM_CHAINS} chains x seeds, has {count}")
    statistic = _low_error(seeds.axis) if metric == LOW_ERROR else _of_squares(metric)
    ends = statistic(np.concatenate(seeds.a)), statistic(np.concatenate(seeds.b))
    made = replace(made, a=ends[0], b=ends[1])
    if not any(map(math.isfinite, ends)) or not all(end > 0 for end in ends):
        return replace(made, withheld="one of them is zero" if metric == ESS_MSE else "neither gets there")
    ratio = _ratio(*ends)
    made = replace(made, effect=ratio)
    if len(seeds.pairs) > 1:
        low, high = _interval(ratio, seeds, metric)
        made = replace(made, low=low, high=high, interval="bootstrap 95 %")
    failed = sum(run.status not in {"done", "diverged"} for group in (a, b) for run in group.runs)
    made = replace(made, withheld=f"{failed} runs failed" if failed else "")
    return _tested(made, [statistic(rows) for rows in seeds.a], [statistic(rows) for rows in seeds.b])


def _tested(made: Comparison, a: Sequence[float], b: Sequence[float]) -> Comparison:
    """With p from the statistics of the seeds, one by one."""
    ratios = _log_ratios(a, b)
    if len(ratios) < FEWEST:
        return replace(made, withheld=too_few(len(ratios)))
    if len(ratios) < PERMUTATION_SEEDS and not all(0 < x < math.inf for x in (*a, *b)):
        return replace(made, withheld=f"a seed never gets there: a test needs {PERMUTATION_SEEDS} pairs, not {len(a)}")
    test = paired_test(ratios)
    made = replace(made, p=test.p, test=f"{test.method}, of log ratios by seed")
    if made.effect is not None and test.mean * math.log(made.effect or 1e-300) < 0:
        return replace(made, withheld="seeds one by one speak for the other side")
    return made


def _log_ratios(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """log(a / b) seed by seed; 0 where neither is there, and a factor 2 beyond the greatest where only one is."""
    there = [[0 < x < math.inf for x in side] for side in (a, b)]
    finite = [math.log(x / y) for x, y, s, t in zip(a, b, *there, strict=True) if s and t]
    beyond = max(map(abs, finite), default=0.0) + math.log(2)
    found = iter(finite)
    return [
        next(found) if s and t else 0.0 if s == t else math.copysign(beyond, x - y)
        for x, y, s, t in zip(a, b, *there, strict=True)
    ]


def _paired(a: Group, b: Group, names: Sequence[str], curves: Curves, *, stepwise: bool) -> _Seeds:
    sides = [{run.seed: run for run in group.runs} for group in (a, b)]
    found: list[dict[int, tuple[Rows, Rows] | None]] = [{}, {}]
    unpaired: dict[int, str] = {}
    for seed in sorted({*sides[0], *sides[1]}):
        lacks = []
        for i, name in enumerate("AB"):
            run = sides[i].get(seed)
            if run is None:
                lacks.append(f"{name} was not run")
            elif run.status == "diverged":
                found[i][seed] = None
            elif run.status == "done" and all((run.attempt, curve) in curves for curve in names):
                own = [curves[run.attempt, curve] for curve in names]
                found[i][seed] = own[0][0], np.stack([y for _, y in own], axis=1)
            else:
                what = "has no curves of it" if run.status == "done" else f"failed ({run.status})"
                lacks.append(f"{name} {what}")
        if lacks:
            unpaired[seed] = ", ".join(lacks)
    pairs = tuple(sorted(found[0].keys() & found[1].keys()))
    known = [f for side in found for seed, f in side.items() if f is not None and seed in pairs]
    if not known:
        return _Seeds((), (), np.empty(0), (), unpaired | dict.fromkeys(pairs, "A and B diverged"))
    axis = np.unique(np.concatenate([x for x, _ in known]))
    rows = [
        [_on_axis(side[seed], axis, group.chains, len(names), stepwise=stepwise) for seed in pairs]
        for side, group in zip(found, (a, b), strict=True)
    ]
    return _Seeds(rows[0], rows[1], axis, pairs, unpaired)


def _on_axis(found: tuple[Rows, Rows] | None, axis: Rows, chains: int, curves: int, *, stepwise: bool) -> Rows:
    """Curves (C, k, n) at the points of a common axis: the last value at or before each; inf before the first."""
    if found is None:
        return np.full((chains, curves, len(axis)), math.inf)
    x, y = found
    if not stepwise:
        return y
    last = np.searchsorted(x, axis, side="right") - 1
    values = np.where(last >= 0, y[:, :, np.maximum(last, 0)], math.inf)
    return np.where(np.isnan(values), math.inf, values)


def _low_error(axis: Rows) -> Statistic:
    def cost(rows: Rows) -> float:
        """The worse of z and z^2."""
        return max(last_crossing(curve, axis, THRESHOLD) for curve in np.median(rows, axis=0))

    return cost


def _of_squares(metric: str) -> Statistic:
    def found(errors: Rows) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(_OF_SQUARES[metric]((errors**2).mean(axis=0).ravel()))

    return found


def _interval(ratio: float, seeds: _Seeds, metric: str) -> tuple[float, float]:
    """Ends of the interval of the ratio. The seeds drawn depend on their number only: both sides get the same."""
    a, b = (_replicates(side, seeds.axis, metric) for side in (seeds.a, seeds.b))
    ratios = [_ratio(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return bootstrap_interval(ratio, ratios, len(seeds.pairs))


def _replicates(side: Sequence[Rows], axis: Rows, metric: str) -> Rows:
    """The statistic on resampled seeds."""
    rows, seed_of_row = np.concatenate(side), np.repeat(np.arange(float(len(side))), [len(part) for part in side])
    if metric == LOW_ERROR:
        return np.maximum(*(bootstrap_low_error(rows[:, k], axis, seed_of_row) for k in range(2)))
    with np.errstate(over="ignore", invalid="ignore"):
        means = resampled_means((rows**2).reshape(len(rows), -1), seed_of_row)
    assert means is not None
    return _OF_SQUARES[metric](means)


def _ratio(x: float, y: float) -> float:
    """x / y; where both are infinite they are equal."""
    if x == y:
        return 1.0
    return math.inf if y == 0 or math.isinf(x) else x / y
