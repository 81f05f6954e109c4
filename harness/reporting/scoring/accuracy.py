"""Statistics over chains x seeds, from the curves that a task with a known truth records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.analysis.diagnostics import LowErrorCost, eigenvalue_intervals, norm_interval, passes_to_low_error
from harness.analysis.diagnostics.crossing import MINIMUM_CHAINS, THRESHOLD, within
from harness.analysis.diagnostics.joint import DISTANCE, GREATEST, LEAST, MEAN, WITHIN, Bracket, Gate, Limits, gate
from harness.analysis.statistics import mean_interval
from harness.reporting.scoring.estimates import Curves, Estimate, bootstrap_ends, resampled_means, rows_by_seed
from harness.reporting.scoring.groups import Group

Array = NDArray[np.float64]

JOINT = "joint_error"
LOW_ERROR = "passes_to_low_error"
LOW_ERROR_VERSION = 2
"""1 took the worst coordinate, not the worst direction."""
OVER_SEEDS = ("joint_bias2", "joint_variance", "low_error_share")
UNGATED = (JOINT, LOW_ERROR, *OVER_SEEDS)
"""Metrics that a wrong law cannot inflate: errors that count bias and variance in every direction."""
ESS_MSE = "ess_mse"
MARGINAL = "mean_error"
"""A group that measures this metric has a known truth."""
FUNCTIONS = ("agreement", "function_mean_error")
"""And one that measures one of these: a reference in function space."""

ERRORS = ("joint_error",)
LOW_ERROR_CURVES = ("joint_b2_z_max", "joint_b2_z2_max")
ESS_CURVES = ("chain_error_z",)
GATE_METRICS = tuple(limits.metric for limits in (MEAN, LEAST, GREATEST, DISTANCE))
GATE = {"whitened_mean": MEAN, "whitened_second": (LEAST, GREATEST), "distribution_error": DISTANCE}
CURVES = (*ERRORS, *LOW_ERROR_CURVES, *ESS_CURVES, *GATE, "within_mode_ratio")
NO_RECORD = "no joint record: `bench rescore` may add it, else run it again"

Estimates = Mapping[str, Estimate]
Findings = Sequence[tuple[Limits, Bracket]]


@dataclass(frozen=True)
class Accuracy:
    """What the curves of a group say: the findings that the gate judges, the errors by name, and the sample size."""

    findings: Findings
    errors: Estimates
    size: Estimate | None


def accuracy(group: Group, curves: Curves) -> Accuracy:
    """Everything that is computed from a group's curves, which can be freed afterwards."""
    found = findings(group, curves)
    errors = {**gate_estimates(group, found), **(joint_error(group, curves) or {}), **(low_error(group, curves) or {})}
    return Accuracy(found, errors, effective_size(group, curves))


def findings(group: Group, curves: Curves) -> Findings:
    """What the gate judges, each with its interval over seeds; [] where a run of the group has no record of it."""
    found = {name: _by_seed(group, curves, name) for name in (*GATE, "within_mode_ratio")}
    mean, second, distance, within = found.values()
    if mean is None or second is None:
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


def judge(group: Group, found: Findings) -> Gate | None:
    """The gate on a group's findings; None where no truth is known."""
    if found:
        return gate(found)
    return Gate("undetermined", NO_RECORD) if MARGINAL in group.metrics() else None


def gate_estimates(group: Group, judged: Findings) -> Estimates:
    """The findings of the gate as metrics; {} without a record."""
    return {limits.metric: _as_metric(limits, found, len(group.runs)) for limits, found in judged if limits.metric}


def _as_metric(limits: Limits, found: Bracket, seeds: int) -> Estimate:
    distance = limits in (MEAN, DISTANCE)
    unit, direction, target = ("sd" if limits is MEAN else "1"), ("min" if distance else "target"), 1.0
    value, low, high = (None if np.isnan(end) else end for end in found)
    return Estimate(
        limits.metric, 1, unit, direction, None if distance else target, value, low, high, "held out 95 %", seeds
    )


def joint_error(group: Group, curves: Curves) -> Estimates | None:
    """The error at the end of the budget, and its parts; None without the curves.

    b2 = (average of f over a chain's draws - E f)^2 / Var f, averaged over chains x seeds, of the worst f: z or z^2
    along a direction, or whether z is below a quantile of the truth. That is squared bias plus variance. Infinite where
    a chain diverged.
    """
    rows = rows_by_seed(group, curves, ERRORS[0])
    if rows is None:
        return None
    seeds, (_, errors) = rows
    with np.errstate(over="ignore", invalid="ignore"):
        squares = (errors**2).mean(axis=0)
        means = resampled_means(errors**2, seeds)
    replicates = None if means is None else worst(means)
    b2, n = float(worst(squares)), len(group.runs)
    low, high, kind = bootstrap_ends(b2, replicates, len(np.unique(seeds)))
    bias2 = variance = None
    if np.isfinite(b2):
        place = int(squares.argmax())
        with np.errstate(over="ignore"):
            bias2, variance = float(errors[:, place].mean() ** 2), float(errors[:, place].var())
    return {
        JOINT: Estimate(JOINT, 1, "1", "min", None, b2, low, high, kind, n, replicates=replicates),
        "joint_bias2": Estimate("joint_bias2", 1, "1", "min", None, bias2, measured=n),
        "joint_variance": Estimate("joint_variance", 1, "1", "min", None, variance, measured=n),
    }


def worst(squares: Array) -> Array:
    """The greatest of mean squares (..., n) over the n; infinite where one is not finite."""
    return np.asarray(np.where(np.isfinite(squares), squares, np.inf).max(axis=-1))


def low_error(group: Group, curves: Curves) -> Estimates | None:
    """Data passes to low error, the worse of z and z^2, along the worst direction; None without the curves."""
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
    """ESS_mse of z, the median over coordinates, in independent draws a chain, over chains x seeds."""
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
    """1 / mean square, (..., D): the median over coordinates."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.median(np.nan_to_num(1 / squares, nan=0.0, posinf=np.inf), axis=-1))


def _by_seed(group: Group, curves: Curves, name: str) -> Array | None:
    """A curve of whole runs, for all finished seeds: (S, n); None if a seed lacks it."""
    own = [curves[run.attempt, name][1][0] for run in group.done if (run.attempt, name) in curves] if curves else []
    if not own or len(own) < len(group.done) or len({len(y) for y in own}) > 1:
        return None
    return np.stack(own)


def _bracket(values: Array) -> Bracket:
    found = mean_interval(values) if np.isfinite(values).all() else None
    if found is None or found.low is None or found.high is None:
        return Bracket(np.nan, np.nan, np.nan)
    return Bracket(found.mean, found.low, found.high)
