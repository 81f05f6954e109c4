"""The objective of a trial: one metric of its runs, whose seeds no report shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness import UsageError
from harness.reports import suggestions
from harness.tasks import Metric
from plugins.tuning.search import Trial

DEFAULTS = ("nll", "joint_error")
"""The negative log-likelihood of held-out training data; for a task without it, the error against the truth."""


@dataclass(frozen=True)
class Objective:
    """A metric, with the direction in which it is better."""

    metric: str
    direction: str
    target: float | None = None

    def loss(self, metrics: list[dict[str, Any]]) -> float:
        """Return the number to minimise from the metrics of a finished run; infinite if the metric has no value."""
        value = next((metric["value"] for metric in metrics if metric["name"] == self.metric), None)
        if value is None or not math.isfinite(value):
            return math.inf
        if self.direction == "target":
            return abs(float(value) - float(self.target or 0.0))
        return -float(value) if self.direction == "max" else float(value)

    def of(self, trial: Trial) -> float | None:
        """Return the metric of a trial (or its distance from a target), the mean over seeds; None if a run failed."""
        return self.shown(trial.objective)

    def shown(self, loss: float) -> float | None:
        """Return the metric (or its distance from a target) for a loss; None if it is infinite."""
        return None if not math.isfinite(loss) else -loss if self.direction == "max" else loss


def objective(task: str, declared: Sequence[Metric], named: str | None) -> Objective:
    """Return the named objective, or the task's default one; raise `UsageError` if the task has none."""
    metrics = {metric.name: metric for metric in declared}
    name = named or next((name for name in DEFAULTS if name in metrics), None)
    if name is None:
        raise UsageError(
            f"task {task} has neither {' nor '.join(DEFAULTS)}; name what to tune by: --objective METRIC"
            f"{suggestions('', metrics)}"
        )
    if name not in metrics:
        raise UsageError(f"--objective {name!r:.80}: task {task} has no such metric{suggestions(name, metrics)}")
    return Objective(name, metrics[name].direction, metrics[name].target)
