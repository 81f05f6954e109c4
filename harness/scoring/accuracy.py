"""Statistics over chains x seeds, from the curves that a task with a known truth records.

Against data passes: b2_z_max and b2_z2_max (C, n), the squared error of each chain's running averages, in the worst
coordinate. Against the coordinate: mean_error and variance_ratio (1, D), of all chains of the run; chain_error_z and
chain_error_z2 (C, D), the signed errors of each chain at the end, in sds of z and of z^2. Where the target has modes:
within_mode_ratio (1, 1), the variance within a mode over the truth's.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.diagnostics import LowErrorCost, ess_mse, gradients_to_low_error, split_b2
from harness.diagnostics.bias import Gate, gate
from harness.diagnostics.crossing import MINIMUM_CHAINS, THRESHOLD
from harness.scoring.estimates import Curves, Estimate, bootstrapped, rows_by_seed
from harness.scoring.groups import Group
from harness.statistics import mean_interval

LOW_ERROR = "gradients_to_low_error"
LOW_ERROR_METRICS = (LOW_ERROR, "low_error_share", "low_error_bias2", "low_error_variance")
ESS_MSE = "ess_mse"
GATE_CURVES = ("mean_error", "variance_ratio", "within_mode_ratio")
HEADLINE_CURVES = ("b2_z_max", "b2_z2_max")
ERROR_CURVES = ("chain_error_z", "chain_error_z2")


Headline = Mapping[str, Estimate]
"""Gradients to low error, and what stands beside it: the share of chains that got there, and the error at the end of
the budget (b2 of the worst coordinate of z or z^2) split into squared bias and variance."""


def judge_bias(group: Group, curves: Curves) -> Gate | None:
    """The gate on the group's seeds; None where no run records what it needs (no truth)."""
    errors, ratios, within = (_interval_ends(group, curves, name) for name in GATE_CURVES)
    if errors is None or ratios is None or errors.shape != ratios.shape:
        return None
    return gate(errors, ratios) if within is None else gate(errors, ratios, within)


def low_error(group: Group, curves: Curves) -> Headline | None:
    """Gradients to low error, the worse of z and z^2, max over coordinates; None where the curves do not exist."""
    costs: list[LowErrorCost] = []
    replicates = []
    low = []
    for name in HEADLINE_CURVES:
        rows = rows_by_seed(group, curves, name)
        if rows is None:
            return None
        seeds, (x, y) = rows
        costs.append(gradients_to_low_error(y, x, seeds))
        low.append(y[:, -1] <= THRESHOLD)
        if costs[-1].replicates is not None:
            replicates.append(costs[-1].replicates)
    count = costs[0]
    remark = ""
    if count.value is None:
        remark = f"needs {MINIMUM_CHAINS} chains x seeds, has {count.chains}"
    values = [cost.value for cost in costs if cost.value is not None]
    paired = np.maximum(*replicates) if len(replicates) == 2 else None
    ends = (None, None) if paired is None else np.quantile(paired, [0.025, 0.975], method="inverted_cdf").tolist()
    estimate = Estimate(
        LOW_ERROR, 1, "data passes", "min", None, max(values, default=None), ends[0], ends[1],
        "none" if paired is None else "bootstrap 95 %", len(group.runs), replicates=paired, remark=remark,
    )  # fmt: skip
    bias2, variance = _final_split(group, curves)
    beside = (float(np.mean(low[0] & low[1])), "max"), (bias2, "min"), (variance, "min")
    return {
        LOW_ERROR: estimate,
        **{
            name: Estimate(name, 1, "1", direction, None, value, measured=len(group.runs))
            for name, (value, direction) in zip(LOW_ERROR_METRICS[1:], beside, strict=True)
        },
    }


def effective_size(group: Group, curves: Curves) -> Estimate | None:
    """ESS_mse of z, the median over coordinates, in independent draws a chain, over chains x seeds."""
    rows = rows_by_seed(group, curves, "chain_error_z")
    if rows is None:
        return None
    seeds, (_, errors) = rows
    replicates, low, high = bootstrapped(errors, seeds, _median_ess_mse)
    kind = "none" if replicates is None else "bootstrap 95 %"
    value = _median_ess_mse(errors)
    return Estimate(ESS_MSE, 1, "draws", "max", None, value, low, high, kind, len(group.runs), replicates=replicates)


def _median_ess_mse(errors: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.median(np.nan_to_num(ess_mse(errors), nan=0.0, posinf=np.inf)))


def _interval_ends(group: Group, curves: Curves, name: str) -> np.ndarray | None:
    """(D, 2): the 95 % interval over seeds of each coordinate; NaN ends where there is none. None without curves."""
    own = [curves[run.attempt, name][1][0] for run in group.done if (run.attempt, name) in curves] if curves else []
    if not own or len({len(y) for y in own}) > 1:
        return None
    ends = []
    for values in np.stack(own, axis=1):
        found = mean_interval(values) if not np.isnan(values).any() else None
        known = found is not None and found.low is not None and found.high is not None
        ends.append((found.low, found.high) if found is not None and known else (np.nan, np.nan))
    return np.array(ends)


def _final_split(group: Group, curves: Curves) -> tuple[float | None, float | None]:
    """Squared bias and variance of the worst coordinate of z or z^2 at the end of the budget."""
    worst: tuple[float, float, float] | None = None
    for name in ERROR_CURVES:
        rows = rows_by_seed(group, curves, name)
        if rows is None:
            continue
        errors = rows[1][1]
        if not np.isfinite(errors).all():
            return float("inf"), None
        split = split_b2(errors)
        d = int(np.argmax(split.bias2 + split.variance))
        found = (float(split.bias2[d] + split.variance[d]), float(split.bias2[d]), float(split.variance[d]))
        worst = found if worst is None else max(worst, found)
    return (worst[1], worst[2]) if worst else (None, None)
