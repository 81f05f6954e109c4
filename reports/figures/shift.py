"""Distribution shift: error, NLL and calibration on shifted test rows, by kind of shift and severity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from harness import Result
from harness.reports import Column, Estimate, FieldScore, Figure, Group, Request, Table, with_interval
from reports.figures.parts import (
    BAND,
    Array,
    FieldReport,
    band,
    field_figure,
    legend_below,
    legend_height,
    over_seeds,
    record,
)
from reports.figures.styles import looks
from reports.tables import wide

PREFIX = "shift_"
ALL = "mean of all"
ORDER = {"shift_nll": 1, "shift_ece": 2}
"""The metrics after the error."""
UNITS = {"test_error": "test error (%)"}
NOTE = (
    "severity 0: the same rows as they are; mean: over the severities 1 to 5. Means are not divided by a baseline's, "
    "as an mCE is"
)

Values = Mapping[str, Mapping[str, Array]]
"""Shift -> method -> values (seeds, severities) of a metric."""


class Shift(FieldReport):
    """Tables and a figure for each field of runs on shifted test rows (`tasks.shifts.WithShifts`).

    A table for each metric (the error, NLL, ECE) has a row for each shift and method and a column for each severity,
    and rows of the mean of all shifts. Intervals are over seeds. The figure has a panel for each metric and shift.
    """

    name: ClassVar[str] = "shift"

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        metrics = sorted((one for one in score.metrics if one.startswith(PREFIX)), key=lambda one: ORDER.get(one, 0))
        if not metrics:
            note = f"{score.title}: the task has no shifted rows (tasks.shifts.WithShifts)"
            return Result(notes=[note] if request.tasks else [])
        severities, panels = _panels(score, metrics, _names(score))
        shown = {label for values in panels.values() for lines in values.values() for label in lines}
        notes = [
            f"{label}: no finished runs with scores by severity"
            for label in score.labels.values()
            if label not in shown
        ]
        if not shown:
            return Result(notes=notes)
        tables = [_table(score, metric, values, severities) for metric, values in panels.items()]
        return Result(tables, _records(name, score, panels, severities), [_figure(name, score, panels)], notes)


def _names(score: FieldScore) -> list[str]:
    """Return the names of the shifts in their order, as a finished run has them; [] without one."""
    stored = (score.arrays(run, "shifts") for group in score.groups for run in group.done)
    return next((arrays["shifts"].tobytes().decode().splitlines() for arrays in stored if arrays is not None), [])


def _panels(score: FieldScore, metrics: list[str], shifts: list[str]) -> tuple[list[int], dict[str, Values]]:
    """Return the severities, and the values of each metric."""
    panels: dict[str, Values] = {}
    severities: list[int] = []
    for metric in metrics:
        by_shift: dict[str, dict[str, Array]] = {shift: {} for shift in (*shifts, ALL)}
        for group in score.groups:
            each = [_by_seed(score, group, f"{metric}_{shift}") for shift in shifts]
            curves = [curve for curve in each if curve is not None]
            if not curves or len(curves) < len(shifts):
                continue
            severities = curves[0][0].astype(int).tolist()
            values = [rows for _, rows in curves]
            for shift, rows in zip(by_shift, (*values, np.mean(values, axis=0)), strict=True):
                by_shift[shift][score.labels[group.key]] = rows
        panels[metric] = by_shift
    return severities, panels


def _by_seed(score: FieldScore, group: Group, name: str) -> tuple[Array, Array] | None:
    """Return x (n,) and the values (seeds, n) of a curve of the finished runs, by seed."""
    curve = score.curve(group, name)
    if curve is None:
        return None
    seeds, (x, rows) = curve
    return x, np.concatenate([rows[seeds == seed] for seed in sorted(group.done.numbers.seed)])


def _table(score: FieldScore, metric: str, values: Values, severities: list[int]) -> Table:
    columns = [Column("shift", "shift"), Column("method", "method"), Column("seeds", "seeds", "right")]
    columns += [Column(str(k), f"severity {k}", "right") for k in severities]
    columns += [Column("mean", "mean", "right")]
    rows = []
    for shift, lines in values.items():
        for label, each in lines.items():
            cells = {str(k): _text(metric, column) for k, column in zip(severities, each.T, strict=True)}
            mean = _text(metric, each[:, 1:].mean(axis=1))
            rows.append({"shift": _words(shift), "method": label, "seeds": len(each), **cells, "mean": mean})
    title = f"{_header(metric)}, {score.title}"
    return Table(title, columns, rows, [NOTE, *score.failures()], keys=2)


def _text(metric: str, values: Array) -> str:
    over = over_seeds(values)
    kind = "t 95 %" if over["interval"] == "t" else over["interval"]
    return with_interval(Estimate(metric, 1, "", "min", None, over["mean"], over["low"], over["high"], kind))


def _records(
    figure: str, score: FieldScore, panels: Mapping[str, Values], severities: list[int]
) -> list[dict[str, Any]]:
    groups = {score.labels[group.key]: group for group in score.groups}
    return [
        record(
            figure, groups[label], method=label, metric=metric, shift=shift, severity=severity, seeds=len(column),
            **over_seeds(column), run_keys=[run.key for run in groups[label].done],
        )
        for metric, values in panels.items()
        for shift, lines in values.items()
        for label, each in lines.items()
        for severity, column in zip(severities, each.T, strict=True)
    ]  # fmt: skip


def _figure(name: str, score: FieldScore, panels: Mapping[str, Values]) -> Figure:
    columns = max(len(values) for values in panels.values())
    labels = {label for values in panels.values() for lines in values.values() for label in lines}
    width = max(1.7 * columns + 0.8, 6.0)
    size = (width, 2.0 * len(panels) + 0.9 + legend_height(labels, width))
    caption = f"Scores on the first test rows, shifted; severity 0: as they are. {BAND}."
    return field_figure(name, score, lambda canvas: _draw(canvas, panels, columns), size, caption)


def _draw(canvas: Any, panels: Mapping[str, Values], columns: int) -> None:
    axes = canvas.subplots(len(panels), columns, squeeze=False, sharex=True, sharey="row")
    styles = looks(sorted({label for values in panels.values() for lines in values.values() for label in lines}))
    handles: dict[str, Any] = {}
    for ax, shift in zip(axes[0], next(iter(panels.values())), strict=True):
        ax.set_title(_words(shift), fontsize="small")
    for line, (metric, values) in zip(axes, panels.items(), strict=True):
        line[0].set_ylabel(_header(metric), fontsize="small")
        for ax, lines in zip(line, values.values(), strict=True):
            for label, each in lines.items():
                handles[label] = band(
                    ax, np.arange(each.shape[1], dtype=np.float64), each, styles[label], linewidth=1.2, markersize=3
                )
    for ax in axes[-1]:
        ax.set_xlabel("severity")
    legend_below(canvas, dict(sorted(handles.items())), BAND)


def _header(metric: str) -> str:
    name = metric.removeprefix(PREFIX)
    return UNITS.get(name, wide.header(name))


def _words(shift: str) -> str:
    return shift.replace("_", " ")
