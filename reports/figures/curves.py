"""The decrease of errors during a run: against data passes and against seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from harness import Result
from harness.reports import Column, FieldScore, Figure, Group, Request, Table
from reports.figures.parts import (
    BAND,
    NOT_TIMED,
    Array,
    FieldReport,
    band,
    field_figure,
    legend_below,
    legend_height,
    over_seeds,
    record,
    seconds_a_pass,
)
from reports.figures.styles import looks

SHOWN = {
    "test_error": "test error (%),\nposterior mean so far",
    "rmse": "RMSE,\nposterior mean so far",
    "nll": "NLL (nats),\nposterior mean so far",
    "single_test_error": "test error (%),\neach draw",
    "single_rmse": "RMSE,\neach draw",
    "single_train_error": "training error (%),\neach draw",
}


class Curves(FieldReport):
    """A figure for each field (task, protocol, chains, budget) of classifiers: the test error and negative
    log-likelihood of the posterior mean so far and the errors of single draws, if they were measured, against data
    passes on the left and, where `bench time` measured them, seconds on the right.

    Lines are means over seeds (and chains), bands go from the lowest to the highest seed. Seconds are those of sampling
    alone, without evaluation, spread evenly over the passes of a run.
    """

    name: ClassVar[str] = "curves"

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        lines, missing = _lines(score)
        notes = missing if lines or request.tasks else []
        if not lines:
            return Result(notes=notes)
        records = [_record(name, *line) for line in lines]
        return Result([_table(score.title, records)], records, [_figure(name, score, lines)], notes)


Line = tuple[str, Group, str, Array, Array]
"""Label, group, name of the curve, data passes (n,), and values by seed (seeds, n)."""


def _lines(score: FieldScore) -> tuple[list[Line], list[str]]:
    lines: list[Line] = []
    for group in score.groups:
        for name in SHOWN:
            curve = score.curve(group, name)
            if curve is not None:
                seeds, (x, rows) = curve
                each = [rows[seeds == seed].mean(axis=0) for seed in sorted(group.done.numbers.seed)]
                lines.append((score.labels[group.key], group, name, x, np.stack(each)))
    drawn = {line[0] for line in lines}
    return lines, [
        f"{name}: no curves of errors at the same passes in all its runs"
        for name in score.labels.values()
        if name not in drawn
    ]


def _record(figure: str, label: str, group: Group, name: str, x: Array, values: Array) -> dict[str, Any]:
    mean = values.mean(axis=0)
    best = int(np.nanargmin(mean)) if np.isfinite(mean).any() else 0
    pace = seconds_a_pass(group)
    return record(
        figure, group, label=label, metric=name, points=len(x), seeds=len(values), passes=float(x[-1]),
        seconds=None if pace is None else pace * float(x[-1]), **over_seeds(values[:, -1]),
        lowest=float(mean[best]) if np.isfinite(mean[best]) else None, lowest_at_passes=float(x[best]),
        run_keys=[run.key for run in group.done],
    )  # fmt: skip


def _table(heading: str, records: Sequence[Mapping[str, Any]]) -> Table:
    columns = [Column("label", "method"), Column("metric", "curve"), Column("seeds", "seeds", "right")]
    columns += [Column("mean", "at the end", "right", ".4g"), Column("lowest", "lowest", "right", ".4g")]
    columns += [Column("lowest_at_passes", "at passes", "right", ".4g"), Column("passes", "passes", "right", ".4g")]
    columns += [Column("seconds", "seconds", "right")]
    rows = [{**r, "seconds": NOT_TIMED if r["seconds"] is None else f"{r['seconds']:.3g}"} for r in records]
    note = "means over seeds; lowest: of the mean curve; seconds of sampling, from a timing pass (`bench time`)"
    return Table(heading, columns, rows, [note], keys=2)


def _figure(name: str, score: FieldScore, lines: Sequence[Line]) -> Figure:
    shown = [curve for curve in SHOWN if any(line[2] == curve for line in lines)]
    size = (8.4, 2.1 * len(shown) + 0.5 + legend_height({line[0] for line in lines}, 8.4))
    return field_figure(name, score, lambda canvas: _draw(canvas, lines, shown), size, f"{BAND}.")


def _draw(canvas: Any, lines: Sequence[Line], shown: Sequence[str]) -> None:
    axes = canvas.subplots(len(shown), 2, squeeze=False, sharey="row", sharex="col")
    styles = looks(list({line[0] for line in lines}))
    handles: dict[str, Any] = {}
    for label, group, name, x, values in lines:
        pace = seconds_a_pass(group)
        marker = "o" if np.isfinite(values.mean(axis=0)).sum() < 15 else ""
        for ax, scale in zip(axes[shown.index(name)], (1.0, pace), strict=True):
            if scale is not None:
                style = {"marker": marker, "markersize": 3, "linewidth": 1.2}
                handles[label] = band(ax, scale * x, values, styles[label], **style)
    for row, name in zip(axes, shown, strict=True):
        row[0].set_ylabel(SHOWN[name], fontsize="small")
    axes[-1][0].set_xlabel("data passes")
    axes[-1][1].set_xlabel("seconds of sampling")
    legend_below(canvas, dict(sorted(handles.items())), BAND)
