"""Accuracy against rejection: whether a classifier is uncertain where it is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from harness import Result
from harness.reports import FieldScore, Request
from reports.figures.parts import (
    BAND,
    Array,
    FieldReport,
    band,
    field_figure,
    legend_below,
    legend_height,
    record,
    shown,
)
from reports.figures.predictions import Predictions, is_classifier, keys, predictions
from reports.figures.styles import looks

SHARES = np.linspace(0, 0.98, 99)
AREAS = (0.1, 0.2, 0.5)
"""Shares rejected, in the table."""


class Rejection(FieldReport):
    """A figure for each field of classifiers: the accuracy on the test images that are left after rejection.

    Images whose largest probability is smallest are rejected first; the accuracy is shown against the share rejected,
    one line per method. It rises to 100 % if a classifier is least certain where it is wrong; a line that stays level
    rejects at random.
    """

    name: ClassVar[str] = "rejection"
    shown = shown("figure", "method", seeds="", accuracy=".2f", at_10=".2f", at_20=".2f", at_50=".2f")

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        if not is_classifier(score):
            return Result()
        by_label, missing = predictions(score)
        if not by_label:
            return Result(notes=missing)
        lines = {label: np.stack([accuracies(one) for one in runs]) for label, (_, runs) in by_label.items()}
        records = []
        for label, (group, runs) in by_label.items():
            at = [float(np.interp(share, SHARES, lines[label].mean(axis=0))) for share in (0.0, *AREAS)]
            values = dict(zip(("accuracy", "at_10", "at_20", "at_50"), at, strict=True))
            records.append(record(name, group, method=label, seeds=len(runs), **values, run_keys=keys(runs)))
        caption = (
            "Accuracy on the test images that are left when those of the smallest largest probability of the "
            f"posterior mean are rejected. {BAND}."
        )
        size = (6.4, 4.2 + legend_height(lines, 6.4))
        figure = field_figure(name, score, lambda canvas: _draw(canvas, lines), size, caption)
        return Result(records=records, figures=[figure], notes=missing)


def accuracies(one: Predictions) -> Array:
    """Return the accuracy in percent at each of `SHARES`, on the images that are left.

    Images of equal confidence count with their mean.
    """
    _, level = np.unique(-one.confidence, return_inverse=True)
    right = np.bincount(level, weights=one.right) / np.bincount(level)
    order = level.argsort(kind="stable")
    kept = np.cumsum(right[level[order]])
    n = np.ceil(len(order) * (1 - SHARES)).astype(int).clip(1, len(order))
    return np.asarray(100 * kept[n - 1] / n)


def _draw(canvas: Any, lines: Mapping[str, Array]) -> None:
    ax = canvas.subplots()
    styles = looks(list(lines))
    handles = {label: band(ax, 100 * SHARES, values, styles[label], linewidth=1.4) for label, values in lines.items()}
    ax.set(xlabel="test images rejected, least sure first (%)", ylabel="accuracy on the rest (%)", xlim=(0, 100))
    ax.grid(color="0.92")
    legend_below(canvas, dict(sorted(handles.items())), BAND)
