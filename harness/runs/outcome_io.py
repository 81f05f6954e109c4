"""What an observer yielded, in the form in which attempts keep it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.contracts.task import Metric
from harness.system.columns import columns

if TYPE_CHECKING:
    from harness.contracts.task import Array, Outcome, Task


def metric_records(task: Task, values: Mapping[str, float | None]) -> list[dict[str, Any]]:
    """The metrics of a task, in its order; a value that is missing or not finite does not exist."""
    about = columns(Metric)
    return [
        {
            **{name: getattr(metric, name) for name in about},
            "value": _finite(values.get(metric.name)),
            "primary": metric is task.metrics[0],
        }
        for metric in task.metrics
    ]


def curve_arrays(outcome: Outcome) -> dict[str, Array]:
    """The curves as arrays NAME/x and NAME/y."""
    return {f"{name}/{axis}": part for name, xy in outcome.curves.items() for axis, part in zip("xy", xy, strict=True)}


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
