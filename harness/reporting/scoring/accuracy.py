"""Statistics over chains x seeds, from the curves that a task with a known truth records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.analysis.diagnostics import LowErrorCost, eigenvalue_intervals, norm_interval, passes_to_low_error
from harness.analysis.diagnostics.crossing import MINIMUM_CHAINS, THRESHOLD, seed_counts, within
from harness.analysis.diagnostics.joint import DISTANCE, GREATEST, LEAST, MEAN, WITHIN, Bracket, Gate, Limits, gate
from harness.analysis.statistics import mean_interval, most_failures
from harness.analysis.statistics.tests import FEWEST_RARE
from harness.reporting.scoring.estimates import Curves, Estimate, bootstrap_ends, resampled_means, rows_by_seed
from harness.reporting.scoring.groups import Group

Array = NDArray[np.float64]

JOINT, MEDIAN, FAILED = "joint_error", "median_error", "failed_chains"
LOW_ERROR = "passes_to_low_error"
LOW_ERROR_VERSION = 2
"""Version 1 took the worst coordinate, not the worst direction."""
OVER_SEEDS = ("joint_bias2", "joint_variance", "largest_bias2", "low_error_share")
UNGATED = (JOINT, MEDIAN, FAILED, LOW_ERROR, *OVER_SEEDS)
"""Metrics that a wrong law cannot inflate: errors that count bias and variance in every direction."""
ESS_MSE = "ess_mse"
MARGINAL = "mean_error"
"""A group that measures this metric has a known truth."""
MODES = "modes_covered"
"""A task with this metric has several modes: a seed may miss some rarely, and then its error is far larger."""
FUNCTIONS = ("agreement", "function_mean_error")
"""A group that measures one of these metrics has a reference in function space."""

ONE_DRAW = 1.0
"""The joint error that a single exact draw of the truth has on average, in every direction: no row above it is tied."""
FAILURE = 10.0
"""A chain failed if its error is above so many times the median of its row."""
FARTHEST = 1e300
"""The largest error of a seed in tests by signed ranks, which need finite differences."""
MARGINS = {JOINT: math.log(1.5), MEDIAN: math.log(1.5), "lppd": 0.02, "nll": 0.02}
"""Within these, two groups are equivalent: a factor 1.5 of the joint error, .02 nats. Other metrics have no margin."""

ERRORS = ("joint_error",)
LOW_ERROR_CURVES = ("joint_b2_z_max", "joint_b2_z2_max")
ESS_CURVES = ("chain_error_z",)
GATE_METRICS = tuple(limits.metric for limits in (MEAN, LEAST, GREATEST, DISTANCE))
GATE = {"whitened_mean": MEAN, "whitened_second": (LEAST, GREATEST), "distribution_error": DISTANCE}
CURVES = (*ERRORS, *LOW_ERROR_CURVES, *ESS_CURVES, *GATE, "within_mode_ratio")
NO_RECORD = "no joint record: `bench rescore` may add it, else run it again"

Estimates = Mapping[str, Estimate]
GateFindings = Sequence[tuple[Limits, Bracket]]


@dataclass(frozen=True)
class Accuracy:
    """The statistics of a group's curves: the findings that the gate judges, the errors by name, the sample size."""

    findings: GateFindings
    errors: Estimates
    size: Estimate | None


def accuracy(group: Group, curves: Curves) -> Accuracy:
    """Compute all statistics of a group's curves. The curves can be freed afterwards."""
    gated = findings(group, curves)
    errors = {**gate_estimates(group, gated), **(joint_error(group, curves) or {}), **(low_error(group, curves) or {})}
    return Accuracy(gated, errors, effective_size(group, curves))


def findings(group: Group, curves: Curves) -> GateFindings:
    """Return what the gate judges, each with its interval over seeds. [] if a finished run has no record of it, or
    lacks a part that another has.
    """
    by_curve = {name: _by_seed(group, curves, name) for name in (*GATE, "within_mode_ratio")}
    mean, second, distance, within = by_curve.values()
    if mean is None or second is None or any(_in_some_only(group, curves, name) for name in by_curve):
        return []
    dim = mean.shape[1]
    matrices = np.zeros((len(second), dim, dim))
    matrices[:, *np.tril_indices(dim)] = second
    matrices += np.tril(matrices, -1).swapaxes(1, 2)
    least, greatest = eigenvalue_intervals(matrices)
    judged = [(MEAN, norm_interval(mean)), (LEAST, least), (GREATEST, greatest)]
    if distance is not None:
        judged.append((DISTANCE, norm_interval(distance)))
    if within is not None:
        judged.append((WITHIN, _bracket(within[:, 0])))
    return judged


def judge(group: Group, brackets: GateFindings) -> Gate | None:
    """Apply the gate to a group's findings. Returns None if no truth is known."""
    if brackets:
        return gate(brackets)
    return Gate("undetermined", NO_RECORD) if MARGINAL in group.metrics() else None


def gate_estimates(group: Group, judged: GateFindings) -> Estimates:
    """Return the findings of the gate as metrics. {} if there are no findings."""
    return {limits.metric: _as_metric(limits, bracket, len(group.runs)) for limits, bracket in judged if limits.metric}


def _as_metric(limits: Limits, bracket: Bracket, seeds: int) -> Estimate:
    distance = limits in (MEAN, DISTANCE)
    unit, direction, target = ("sd" if limits is MEAN else "1"), ("min" if distance else "target"), 1.0
    value, low, high = (None if np.isnan(end) else end for end in bracket)
    return Estimate(
        limits.metric, 1, unit, direction, None if distance else target, value, low, high, "held out 95 %", seeds
    )


def joint_error(group: Group, curves: Curves) -> Estimates | None:
    """Return the error at the end of the budget, and its parts. None if a curve is missing, or of fewer f than others.

    b2 = (average of f over a chain's draws - E f)^2 / Var f, averaged over chains x seeds, for the worst f. The f are z
    and z^2 along a direction, and whether z is below a quantile of the truth. b2 is squared bias plus variance. It is
    infinite if a chain diverged. Another f may have a larger bias; `largest_bias2` is the largest squared bias of any
    f, less what the variance of its average over n chains adds to it. Where chains have forgotten their start, longer
    runs at the same constant step size keep it, and their joint error stays above it.
    """
    rows = rows_by_seed(group, curves, ERRORS[0])
    if rows is None or _lengths_differ(group, curves, ERRORS[0]):
        return None
    seeds, (_, errors) = rows
    with np.errstate(over="ignore", invalid="ignore"):
        squares = (errors**2).mean(axis=0)
        means = resampled_means(errors**2, seeds)
        of_each = {int(s): float(worst((errors[seeds == s] ** 2).mean(axis=0))) for s in np.unique(seeds)}
    replicates = None if means is None else worst(means)
    b2, n = float(worst(squares)), len(group.runs)
    low, high, kind = bootstrap_ends(b2, replicates, len(np.unique(seeds)))
    bias2 = variance = largest = None
    if np.isfinite(b2):
        worst_f = int(squares.argmax())
        with np.errstate(over="ignore"):
            bias2, variance = float(errors[:, worst_f].mean() ** 2), float(errors[:, worst_f].var())
            by_chance = errors.var(axis=0, ddof=1) / len(errors) if len(errors) > 1 else np.inf
            largest = max(0.0, float((errors.mean(axis=0) ** 2 - by_chance).max()))
    of_seed = {seed: min(error, FARTHEST) for seed, error in of_each.items()} if MODES in group.readings else {}
    if of_seed and len(of_seed) < FEWEST_RARE:
        low, high, kind = None, None, "none"
    return {
        JOINT: Estimate(JOINT, 1, "1", "min", None, b2, low, high, kind, n, replicates=replicates, of_seed=of_seed),
        **chain_estimates(errors, seeds, n),
        "joint_bias2": Estimate("joint_bias2", 1, "1", "min", None, bias2, measured=n),
        "joint_variance": Estimate("joint_variance", 1, "1", "min", None, variance, measured=n),
        "largest_bias2": Estimate("largest_bias2", 1, "1", "min", None, largest, measured=n),
    }  # fmt: skip


def chain_estimates(errors: Array, seeds: Array, n: int) -> Estimates:
    """Return the median of b2 of each chain alone, in its own worst f, and the share of failed chains.

    The share has an exact upper bound (Clopper and Pearson), in which the failures count in whole seeds, rounded up.
    """
    squares, size = chain_errors(errors), len(np.unique(seeds))
    *replicates, median = medians(squares, seeds)
    drawn = np.array(replicates) if size > 1 else None
    shares = failed_shares({int(seed): squares[seeds == seed] for seed in np.unique(seeds)})
    high = most_failures(math.ceil(sum(shares.values()) - 1e-9), size)
    share = float(np.mean([*shares.values()]))
    return {
        MEDIAN: Estimate(
            MEDIAN, 1, "1", "min", None, float(median), *bootstrap_ends(median, drawn, size), n, replicates=drawn
        ),
        FAILED: Estimate(FAILED, 1, "1", "min", None, share, 0.0, high, "exact 95 %", n, shares),
    }


def chain_errors(errors: Array) -> Array:
    """Return b2 (R,) of each chain alone, in its own worst f, from its errors (R, n)."""
    with np.errstate(over="ignore", invalid="ignore"):
        return worst(errors**2)


def medians(values: Array, seeds: Array) -> Array:
    """Return the lower median of values (R,) in each resample of their seeds, and last that of all: (B + 1,)."""
    index, order = np.unique(seeds, return_inverse=True)[1], np.argsort(values)
    counts = seed_counts(index.max() + 1)
    taken = np.vstack([counts, np.ones(counts.shape[1])])[:, index[order]].cumsum(axis=1)
    return np.asarray(values[order][(2 * taken >= taken[:, -1:]).argmax(axis=1)])


def failed_shares(by_seed: Mapping[int, Array]) -> dict[int, float]:
    """Return the share of failed chains by seed, from the b2 of each seed's chains. One that is not finite failed."""
    limit = FAILURE * float(np.median(np.concatenate([*by_seed.values()])))
    return {seed: float(((values > limit) | ~np.isfinite(values)).mean()) for seed, values in by_seed.items()}


def worst(squares: Array) -> Array:
    """Return the greatest of the mean squares (..., n) over n. It is infinite if one of them is not finite."""
    return np.asarray(np.where(np.isfinite(squares), squares, np.inf).max(axis=-1))


def low_error(group: Group, curves: Curves) -> Estimates | None:
    """Return the data passes to low error: the greater of those for z and z^2, along the worst direction.

    None if a curve is missing.
    """
    costs: list[LowErrorCost] = []
    replicates = []
    low = []
    for name in LOW_ERROR_CURVES:
        rows = rows_by_seed(group, curves, name)
        if rows is None:
            return None
        seeds, (x, y) = rows
        costs.append(passes_to_low_error(y, x, seeds))
        low.append(y[:, -1] <= THRESHOLD)
        if costs[-1].replicates is not None:
            replicates.append(costs[-1].replicates)
    count = costs[0]
    remark = ""
    if count.value is None:
        remark = f"needs {MINIMUM_CHAINS} chains x seeds, has {count.chains}"
    values = [cost.value for cost in costs if cost.value is not None]
    paired = np.maximum(*replicates) if len(replicates) == 2 else None
    value = max(values, default=None)
    start, end, kind = bootstrap_ends(value, paired, count.seeds)
    ends = None if start is None else within(start, x), None if end is None else within(end, x), kind
    share = float(np.mean(low[0] & low[1]))
    return {
        LOW_ERROR: Estimate(
            LOW_ERROR, LOW_ERROR_VERSION, "data passes", "min", None, value, *ends,
            len(group.runs), replicates=paired, remark=remark,
        ),
        "low_error_share": Estimate("low_error_share", 2, "1", "max", None, share, measured=len(group.runs)),
    }  # fmt: skip


def effective_size(group: Group, curves: Curves) -> Estimate | None:
    """Return ESS_mse of z over chains x seeds: the median over coordinates, in independent draws per chain.

    None if a curve is missing.
    """
    rows = rows_by_seed(group, curves, ESS_CURVES[0])
    if rows is None:
        return None
    seeds, (_, errors) = rows
    with np.errstate(over="ignore"):
        squares, means = (errors**2).mean(axis=0), resampled_means(errors**2, seeds)
    replicates = None if means is None else median_size(means)
    value = float(median_size(squares))
    ends = bootstrap_ends(value, replicates, len(np.unique(seeds)))
    return Estimate(ESS_MSE, 1, "draws", "max", None, value, *ends, len(group.runs), replicates=replicates)


def median_size(squares: Array) -> Array:
    """Return the median over coordinates of 1 / mean square, from mean squares (..., D)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.median(np.nan_to_num(1 / squares, nan=0.0, posinf=np.inf), axis=-1))


def _in_some_only(group: Group, curves: Curves, name: str) -> bool:
    """Return whether some finished runs have a curve and others do not, or whether its lengths differ."""
    having = sum((run.attempt, name) in curves for run in group.done)
    return 0 < having < len(group.done) or _lengths_differ(group, curves, name)


def _lengths_differ(group: Group, curves: Curves, name: str) -> bool:
    return len({len(curves[run.attempt, name][0]) for run in group.done if (run.attempt, name) in curves}) > 1


def _by_seed(group: Group, curves: Curves, name: str) -> Array | None:
    """Return a curve of the whole runs for all finished seeds, (S, n). None if a seed lacks it or lengths differ."""
    rows = [curves[run.attempt, name][1][0] for run in group.done if (run.attempt, name) in curves] if curves else []
    if not rows or len(rows) < len(group.done) or len({len(y) for y in rows}) > 1:
        return None
    return np.stack(rows)


def _bracket(values: Array) -> Bracket:
    interval = mean_interval(values) if np.isfinite(values).all() else None
    if interval is None or interval.low is None or interval.high is None:
        return Bracket(np.nan, np.nan, np.nan)
    return Bracket(interval.mean, interval.low, interval.high)
