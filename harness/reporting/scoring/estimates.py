"""Estimate a metric of a group: a mean over seeds with its interval, or a statistic over chains x seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from harness.analysis.diagnostics.crossing import seed_counts
from harness.analysis.statistics import bootstrap_interval, mean_interval, t_multiplier
from harness.reporting.scoring.groups import Curve, Group, Readings
from harness.results.records import ValueRow

Curves = Mapping[tuple[str, str], Curve]
Replicates = NDArray[np.float64]
RunCosts = Callable[[Group], Sequence[float | None]]
"""The cost of each finished run of a group, in the order of seeds."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """A metric of a group.

    mean        the mean over the seeds that have a value, or the statistic itself; inf means "never"; None if it does
                not exist
    low, high   the ends of its interval, or of its range
    interval    what low and high are: "t 95 % (x2.26)", "bootstrap 95 %", "range", "none"
    measured    the number of seeds with a value
    by_seed     the values by seed, if the mean is over seeds
    replicates  bootstrap replicates, if the statistic is not a mean over seeds
    remark      a note for the reader
    of_seed     the statistic of each seed alone, on a task where a seed may fail rarely
    """

    metric: str
    version: int
    unit: str
    direction: str
    target: float | None
    mean: float | None
    low: float | None = None
    high: float | None = None
    interval: str = "none"
    measured: int = 0
    by_seed: Mapping[int, float] = field(default_factory=dict)
    replicates: Replicates | None = None
    remark: str = ""
    of_seed: Mapping[int, float] = field(default_factory=dict)


def metric_estimate(group: Group, name: str) -> Estimate | None:
    """Return the mean over seeds of a task's metric, or None if no run of the group has the metric at all.

    If a finished run has no value (for example, no visit to some mode), the group has no mean, and the remark has the
    number of such runs. Values of an older version of the metric are left out, and the remark has their number too.
    """
    if name not in group.readings:
        return None
    newest, *before = [_of_done(group, readings) for readings in group.readings[name]]
    missing = int(np.isnan(newest.values).sum())
    older = sum(len(readings.seeds) for readings in before)
    remarks = [f"none in {missing} of {len(newest.seeds)} seeds"] if missing else []
    remarks += [f"{older} seeds have an older version of the metric"] if older else []
    values = {} if missing else dict(zip(newest.seeds.tolist(), newest.values.tolist(), strict=True))
    return averaged(name, newest.known, values, remark="; ".join(remarks))


def _of_done(group: Group, readings: Readings) -> Readings:
    if len(group.done) == len(group.runs):
        return readings
    keep = np.isin(readings.seeds, group.done.numbers.seed)
    return Readings(readings.known, readings.seeds[keep], readings.values[keep])


def averaged(name: str, known: ValueRow, by_seed: Mapping[int, float], remark: str = "") -> Estimate:
    """Return the mean and the t interval of values by seed."""
    if not by_seed:
        return Estimate(name, known.version, known.unit, known.direction, known.target, None, remark=remark)
    interval = mean_interval(list(by_seed.values()))
    kind: str = interval.kind
    if kind == "t":
        kind = f"t 95 % (x{t_multiplier(len(by_seed) - 1):.2f})"
    return Estimate(
        name, known.version, known.unit, known.direction, known.target, interval.mean, interval.low, interval.high,
        kind, len(by_seed), by_seed, remark=remark,
    )  # fmt: skip


def derived(group: Group, base: Estimate | None, name: str, unit: str, cost: RunCosts) -> Estimate | None:
    """Return an estimate divided by a cost of the run: seed by seed if it is a mean over seeds, else by the mean cost.

    None if there is no estimate or no cost is known.
    """
    costs = {seed: c for seed, c in zip(group.done.numbers.seed, cost(group), strict=True) if c}
    if base is None or base.mean is None or not costs:
        return None
    known = ValueRow(name=name, direction=base.direction, unit=unit, summary="", version=base.version)
    if base.by_seed:
        return averaged(name, known, {seed: v / costs[seed] for seed, v in base.by_seed.items() if seed in costs})
    mean_cost = sum(costs.values()) / len(costs)
    low, high = (None if end is None else end / mean_cost for end in (base.low, base.high))
    replicates = None if base.replicates is None else base.replicates / mean_cost
    return replace(base, metric=name, unit=unit, mean=base.mean / mean_cost, low=low, high=high, replicates=replicates)


def rows_by_seed(group: Group, curves: Curves, name: str) -> tuple[NDArray[np.float64], Curve] | None:
    """Return a curve stacked over the chains of all seeds: the seed of each row (R,), and (x, y (R, n)).

    A diverged run has no curves: its chains are rows of inf, so that they count. Curves of different lengths are cut to
    the shortest. Returns None if a finished run lacks the curve, or if the curves have different grids.
    """
    runs = group.done if curves else ()
    of_seed = {run.seed: curves[run.attempt, name] for run in runs if (run.attempt, name) in curves}
    if not of_seed or len(of_seed) < len(group.done):
        return None
    points = min(len(x) for x, _ in of_seed.values())
    x = next(iter(of_seed.values()))[0][:points]
    if any(not np.array_equal(other[:points], x) for other, _ in of_seed.values()):
        return None
    parts = {seed: y[:, :points] for seed, (_, y) in of_seed.items()}
    parts |= {run.seed: np.full((group.chains, points), math.inf) for run in group.diverged}
    seeds = np.concatenate([np.full(len(y), seed) for seed, y in sorted(parts.items())])
    return seeds, (x, np.concatenate([y for _, y in sorted(parts.items())]))


def resampled_means(rows: NDArray[np.float64], seeds: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the means of rows (R, n) on resampled seeds, (B, n), or None for one seed.

    All rows of a drawn seed are taken together. The resampling depends only on the number of seeds, as in
    `bootstrap_low_error`, so groups with the same seeds are paired. A mean over a row that is not finite is inf.
    """
    distinct = np.unique(seeds)
    if len(distinct) < 2:
        return None
    sums = np.stack([rows[seeds == seed].sum(axis=0) for seed in distinct])
    sizes = np.array([np.count_nonzero(seeds == seed) for seed in distinct])
    times = seed_counts(len(distinct))
    means = times @ np.where(np.isfinite(sums), sums, 0.0) / (times @ sizes)[:, None]
    return np.where(times @ ~np.isfinite(sums) > 0, np.inf, means)


def bootstrap_ends(
    point: float | None, replicates: NDArray[np.float64] | None, seeds: int
) -> tuple[float | None, float | None, str]:
    """Return the ends of the 95 % interval of a statistic from its bootstrap replicates over seeds, and its kind."""
    if replicates is None or point is None:
        return None, None, "none"
    return *bootstrap_interval(point, replicates, seeds), "bootstrap 95 %"
