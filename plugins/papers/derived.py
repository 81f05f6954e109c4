"""Metrics of papers that follow, run by run, from a metric of the task."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness.reports import Estimate, Group, averaged, metric_estimate


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


def estimate_of(group: Group, metric: str, sweep: Sequence[Group] = ()) -> Estimate | None:
    """Return the mean over seeds of a metric of the task, or of one that follows from it; None if no run has it.

    With a sweep, the value of a seed is the mean over the group and the sweep's, where a run that diverged counts as 0.
    There is no mean where a finished run has no value.
    """
    estimate = metric_estimate(group, measured(metric))
    if estimate is None or (metric not in DERIVED and not sweep):
        return estimate
    each = [_by_seed(point, metric, lost=0.0 if sweep else None) for point in (group, *sweep)]
    seeds = [seed for seed in each[0] if all(seed in values for values in each)]
    values = {seed: sum(values[seed] for values in each) / len(each) for seed in seeds}
    missing = any(map(math.isnan, values.values()))
    unit = DERIVED[metric].unit if metric in DERIVED else estimate.unit
    known = replace(group.readings[measured(metric)][0].known, unit=unit)
    remark = estimate.remark if missing or estimate.by_seed else ""
    return averaged(metric, known, {} if missing else values, remark=remark)


def _by_seed(group: Group, metric: str, lost: float | None) -> dict[int, float]:
    """Return a metric of the task, or one that follows from it, of each finished run, NaN for none, and `lost` of each
    run that diverged.
    """
    function = DERIVED[metric].function if metric in DERIVED else float
    values = dict.fromkeys(group.diverged.numbers.seed, lost) if lost is not None else {}
    for readings in group.readings.get(measured(metric), [])[:1]:
        by_seed = dict(zip(readings.seeds.tolist(), readings.values.tolist(), strict=True))
        values |= {seed: function(by_seed[seed]) for seed in group.done.numbers.seed if seed in by_seed}
    return values
