"""The bias of a row that its step size causes, from runs at h, h/2 and h/4 whose steps share their noise.

With f(h) the value of a function of the draws at the step size h, and f(0) its limit, the bias of a row is f(h) - f(0).
Runs with `run.substeps` = m take m steps of size h/m for each step of the row, on the same Brownian path, so that their
differences d1 = f(h) - f(h/2) and d2 = f(h/2) - f(h/4), seed by seed, vary less than the values.

    f(h) - f(0) = (2 d1 + 8 d2) / 3 + O(h^3)       of three runs: exact for terms in h and in h^2
    f(h) - f(0) = 2 d1 + O(h^2)                    of two runs, if the bias has a term in h

If the bias is c h^p, it is (f(h) - f(h/2)) / (1 - 2^-p) with p = log2(d1 / d2). That ratio of two noisy numbers has no
mean, and is not used: the sum above is linear in the values, so its interval over seeds is a t interval. To both ends
|2 d2 - d1| / 3 is added, by which the sum differs from d1 + 2 d2, the sum that is exact for terms in h alone: it
estimates what terms beyond h^2 leave (Richardson 1911, doi:10.1098/rsta.1911.0009).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness import statistics
from harness.reports import FieldScore, Group, Request, Run, Store, number, score_fields, typical

Array = NDArray[np.float64]

SUBSTEPS = "run.substeps"
LENGTHS = ("run.steps", "run.burn_in", "run.thin")
"""Settings that count steps; a run with m substeps has m times as many."""
LEVELS = (1, 2, 4)


@dataclass(frozen=True)
class StepBias:
    """An estimated bias.

    value      the mean over seeds at the step size h
    bias       f(h) - f(0); low and high are the ends of its interval, None for one seed
    order      the power p of h by which the bias falls, with its interval; None if the differences do not show it
    gain       how many times the variance of d1 would be larger for independent runs; None where it is not known
    seeds      the number of seeds
    """

    value: float
    bias: float
    low: float | None
    high: float | None
    order: tuple[float, float, float] | None
    gain: float | None
    seeds: int

    @property
    def text(self) -> str:
        """The bias with its interval."""
        return with_ends(self.bias, self.low, self.high)


def with_ends(value: float, low: float | None, high: float | None) -> str:
    """Return a number with its interval as text."""
    return number(value) + ("" if low is None or high is None else f" [{number(low)}, {number(high)}]")


def estimate(values: Mapping[int, Array], tests: int = 1) -> StepBias:
    """Return the bias from values (S,) by seed at each number of substeps: at 1 and 2, or at 1, 2 and 4.

    The interval has 95 %, or as much for all of `tests` functions together (Bonferroni).
    """
    first, each = values[1], combined(values)
    interval = statistics.mean_interval(each, 1 - 0.05 / tests)
    left = float(np.abs(rest(values).mean()))
    return StepBias(
        value=float(first.mean()),
        bias=interval.mean,
        low=None if interval.low is None else interval.low - left,
        high=None if interval.high is None else interval.high + left,
        order=order(values),
        gain=gain(values),
        seeds=len(first),
    )


def covers(estimated: StepBias, measured: Array, tests: int = 1) -> bool | None:
    """Return whether an estimate agrees with the values (S,) of other seeds, at 95 % for all of `tests` together.

    The values are errors against the truth at the step size h; both intervals count, as their half widths squared.
    """
    true = statistics.mean_interval(measured, 1 - 0.05 / tests)
    if estimated.low is None or estimated.high is None or true.low is None or true.high is None:
        return None
    halves = (estimated.high - estimated.low) / 2, (true.high - true.low) / 2
    return abs(estimated.bias - true.mean) <= math.hypot(*halves)


def combined(values: Mapping[int, Array]) -> Array:
    """Return the bias of each seed (S, ...)."""
    d1 = values[1] - values[2]
    return 2 * d1 if 4 not in values else (2 * d1 + 8 * (values[2] - values[4])) / 3


def rest(values: Mapping[int, Array]) -> Array:
    """Return the difference of the two sums of each seed (S, ...); 0 of two runs, which do not show it."""
    d1 = values[1] - values[2]
    return 0 * d1 if 4 not in values else (2 * (values[2] - values[4]) - d1) / 3


def order(values: Mapping[int, Array]) -> tuple[float, float, float] | None:
    """Return p = log2(d1 / d2) and its interval over seeds by the delta method, if d1 and d2 are clearly not 0."""
    if 4 not in values or len(values[1]) < 2:
        return None
    d1, d2 = values[1] - values[2], values[2] - values[4]
    ends = [statistics.mean_interval(d) for d in (d1, d2)]
    if any(end.low is None or end.high is None or end.low * end.high <= 0 for end in ends):
        return None
    ratio = ends[0].mean / ends[1].mean
    if ratio <= 0:
        return None
    pulls = (d1 / ends[0].mean - d2 / ends[1].mean) / math.log(2)
    half = statistics.t_multiplier(len(d1) - 1) * float(pulls.std(ddof=1)) / math.sqrt(len(d1))
    p = math.log2(ratio)
    return p, p - half, p + half


def gain(values: Mapping[int, Array]) -> float | None:
    """Return (var f(h) + var f(h/2)) / var d1 over seeds."""
    if len(values[1]) < 2:
        return None
    apart = float((values[1] - values[2]).var(ddof=1))
    return float(values[1].var(ddof=1) + values[2].var(ddof=1)) / apart if apart > 0 else None


def root_mean_square(values: Mapping[int, Array]) -> StepBias | None:
    """Return the root mean square over functions of their biases, from values (S, K); None for one seed.

    The mean square is that of products of different seeds, to which noise adds nothing. Its interval is that of the
    jackknife, and ends at 0 at the least.
    """
    each, count = combined(values), len(values[1])
    if count < 3:
        return None

    def square(kept: Array) -> float:
        n = len(kept)
        products = np.square(kept.sum(axis=0)) - np.square(kept).sum(axis=0)
        return float(products.mean()) / (n * (n - 1))

    whole = square(each)
    without = np.array([square(np.delete(each, s, axis=0)) for s in range(count)])
    pseudo = count * whole - (count - 1) * without
    half = statistics.t_multiplier(count - 1) * float(pseudo.std(ddof=1)) / math.sqrt(count)
    left = float(np.sqrt(np.square(rest(values).mean(axis=0)).mean()))
    low, value, high = (math.sqrt(max(end, 0.0)) for end in (whole - half, whole, whole + half))
    return StepBias(math.nan, value, max(low - left, 0.0), high + left, None, None, count)


@dataclass(frozen=True)
class Family:
    """A row and its runs with substeps: a group for each number of them. `passes` is their cost of all chains."""

    levels: Mapping[int, Group]

    @property
    def row(self) -> Group:
        """The group whose bias is estimated."""
        return self.levels[1]

    @property
    def runs(self) -> dict[int, list[Run]]:
        """The finished runs of each level, of the seeds that all have, in the order of seeds."""
        done = {level: {run.seed: run for run in group.done} for level, group in self.levels.items()}
        seeds = sorted(set.intersection(*map(set, done.values())))
        return {level: [by_seed[seed] for seed in seeds] for level, by_seed in done.items()}

    @property
    def others(self) -> list[Run]:
        """The finished runs of the row whose seeds have none at smaller steps: the estimate does not use them."""
        used = {run.seed for run in self.runs[1]}
        return sorted((run for run in self.row.done if run.seed not in used), key=lambda run: run.seed)

    @property
    def passes(self) -> float:
        """Data passes of a chain at all levels together, a median over seeds."""
        return sum(typical(group.done.numbers.passes) or 0.0 for group in self.levels.values())

    def metric(self, name: str) -> dict[int, Array] | None:
        """Return the values of a metric by seed at each level; None if a run has none."""
        values = {
            level: np.array([np.nan if (v := run.metrics[name].value) is None else v for run in runs])
            for level, runs in self.runs.items()
            if all(name in run.metrics for run in runs)
        }
        whole = len(values) == len(self.levels) and all(len(v) and np.isfinite(v).all() for v in values.values())
        return values if whole else None


def families(groups: Sequence[Group], first: int = 1) -> list[Family]:
    """Return the rows of `first` substeps of which runs with twice the steps, at least, exist; also with four times
    if `first` is not 1: those runs may have been made for the row itself.
    """
    alike: dict[str, dict[int, Group]] = {}
    for group in groups:
        substeps = int(group.settings.get(SUBSTEPS, 1))
        settings = {n: v for n, v in group.settings.items() if n not in (SUBSTEPS, "run.compile", *LENGTHS)}
        lengths = [group.settings[name] // substeps for name in LENGTHS if name in group.settings]
        key = json.dumps([group.method, lengths, group.steps // substeps, settings], sort_keys=True)
        alike.setdefault(key, {}).setdefault(substeps, group)
    wanted = (
        {level: members[first * level] for level in LEVELS if first * level in members} for members in alike.values()
    )
    needed = {1, 2} if first == 1 else {*LEVELS}
    return [Family(levels) for levels in wanted if needed <= levels.keys()]


def families_of(store: Store, request: Request) -> dict[str, Family]:
    """Return the rows of which runs at smaller steps exist, by the key of their group."""
    if not store.rows("select 1 from run where substeps > 1 limit 1"):
        return {}
    scores = score_fields(store, request, substeps=True)
    return {family.row.key: family for score in scores for family in families(score.groups)}


def of_metric(family: Family, metric: str) -> StepBias | None:
    """Return the estimated bias of a metric of a row, or None if its runs do not give one."""
    values = family.metric(metric)
    return None if values is None else estimate(values)


def moments(score: FieldScore, levels: Mapping[int, Sequence[Run]]) -> dict[str, dict[int, Array]]:
    """Return what a task with a truth records, averages of draws in sds of what is averaged, of runs by level.

    "mean" and "variance" (S, K) are those of z and z^2 along the truth's K directions, less the true ones, and
    "mean variance" (S,) is the mean of "variance" over the coordinates. {} if runs have no record of them.
    """
    errors, shape, first = (score.curves(name) for name in ("joint_error", "distribution_error", "chain_error_z"))
    averaged: dict[str, dict[int, Array]] = {}
    for level, runs in levels.items():
        if not runs or any(run.attempt not in errors or run.attempt not in first for run in runs):
            return {}
        averages = np.stack([errors[run.attempt][1].mean(axis=0) for run in runs])
        if not np.isfinite(averages).all():
            return {}
        beside = shape[runs[0].attempt][1].shape[1] if runs[0].attempt in shape else 0
        count, dim = (averages.shape[1] - beside) // 2, first[runs[0].attempt][1].shape[1]
        squares = averages[:, count : 2 * count]
        parts = {"mean": averages[:, :count], "variance": squares, "mean variance": squares[:, :dim].mean(axis=1)}
        for name, values in parts.items():
            averaged.setdefault(name, {})[level] = values
    return averaged


def predictions(score: FieldScore, family: Family) -> dict[int, Array] | None:
    """Return the mean predictions of the test rows, (S, K) at each level; None if runs did not store them."""
    for name in ("probabilities", "prediction"):
        stored = {level: [score.arrays(run, name) for run in runs] for level, runs in family.runs.items()}
        if all(arrays and all(one is not None for one in arrays) for arrays in stored.values()):
            return {
                level: np.stack([one[name].ravel().astype(np.float64) for one in arrays if one is not None])
                for level, arrays in stored.items()
            }
    return None
