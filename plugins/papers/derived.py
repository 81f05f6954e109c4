"""Metrics of papers that follow, run by run, from a metric of the task."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from harness import statistics
from harness.reports import Estimate, Group, metric_estimate


@dataclass(frozen=True)
class Derived:
    """The metric `of` a task, and the function that gives this one from its value in a run."""

    of: str
    unit: str
    function: Callable[[float], float]


DERIVED = {
    "nll_mean_regression": Derived("rmse", "nats", lambda rmse: math.log(rmse) + math.log(2 * math.pi * math.e) / 2),
    "works_well": Derived("joint_error", "1", lambda error: float(error < 1)),
}
"""nll_mean_regression: minus the log density of the test rows under normals whose sd is the RMSE on these rows.
works_well: 1 if the joint error of a run is below 1, else 0.
"""


def measured(metric: str) -> str:
    """Return the metric of the task from which a metric follows, or this metric."""
    return DERIVED[metric].of if metric in DERIVED else metric


def estimate_of(group: Group, metric: str) -> Estimate | None:
    """Return the mean over seeds of a metric of the task, or of one that follows from it; None if no run has it."""
    estimate = metric_estimate(group, measured(metric))
    if estimate is None or metric not in DERIVED:
        return estimate
    derived = DERIVED[metric]
    values = {seed: derived.function(value) for seed, value in estimate.by_seed.items()}
    if not values:
        return replace(estimate, metric=metric, unit=derived.unit)
    over = statistics.mean_interval(list(values.values()))
    kind = estimate.interval if over.kind == "t" else over.kind
    return replace(
        estimate, metric=metric, unit=derived.unit, mean=over.mean, low=over.low, high=over.high, interval=kind,
        by_seed=values,
    )  # fmt: skip
