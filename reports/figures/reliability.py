"""Reliability diagrams: how often a classifier is right at each level of confidence."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from harness import Result
from harness.reports import FieldScore, Request
from reports.figures.parts import Array, FieldReport, field_figure, legend_below, name_panel, record, shown
from reports.figures.predictions import Predictions, is_classifier, predictions
from reports.figures.styles import look, method_of

BINS = 15
"""The number of bins of the expected calibration error."""
Z = 1.96


class Reliability(FieldReport):
    """A figure for each field of classifiers, with a panel for each method.

    It shows the share of test images that the posterior mean classifies correctly against its largest probability, in
    15 bins of equal width, with 95 % Wilson intervals; below, the number of images in each bin. It uses the lowest
    finished seed with kept predictions.

    Source: C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On Calibration of Modern Neural Networks", ICML 2017.
    """

    name: ClassVar[str] = "reliability"
    shown = shown("figure", "method", seed="", images=",", ece=".4f")

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        if not is_classifier(score):
            return Result()
        by_label, missing = predictions(score)
        if not by_label:
            return Result(notes=missing)
        panels = {label: runs[0] for label, (_, runs) in by_label.items()}
        records = [
            record(
                name, group, method=label, seed=runs[0].run.seed, images=len(runs[0].right), ece=ece(runs[0]),
                run_keys=[runs[0].run.key],
            )
            for label, (group, runs) in by_label.items()
        ]  # fmt: skip
        columns = min(len(panels), 4)
        size = (max(2.7 * columns + 0.4, 5.4), 3.7 * -(-len(panels) // columns) + 0.9)
        caption = (
            "Above: accuracy on the test images against the largest probability, in {BINS} bins of equal "
            "width, at the mean probability of each bin, with 95 % Wilson intervals. Diagonal: calibrated. Below: the "
            "images of each bin. ECE: the mean distance from the diagonal."
        )
        figure = field_figure(name, score, lambda canvas: _draw(canvas, panels, columns), size, caption)
        return Result(records=records, figures=[figure], notes=missing)


def binned(one: Predictions) -> tuple[Array, Array, Array]:
    """Return the number of images, mean confidence and accuracy in each bin (BINS,); NaN in an empty one."""
    bin_of = np.searchsorted(np.arange(1, BINS) / BINS, one.confidence)
    counts, sure, right = (np.bincount(bin_of, weights=w, minlength=BINS) for w in (None, one.confidence, one.right))
    with np.errstate(invalid="ignore"):
        return counts.astype(np.float64), sure / counts, right / counts


def ece(one: Predictions) -> float:
    """Return the expected calibration error."""
    counts, sure, right = binned(one)
    return float(np.nansum(counts * np.abs(right - sure)) / counts.sum())


def wilson(share: Array, n: Array) -> tuple[Array, Array]:
    """Return the ends of the 95 % Wilson interval of a share of n."""
    with np.errstate(invalid="ignore", divide="ignore"):
        middle = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
        half = Z * np.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    return middle - half, middle + half


def _draw(canvas: Any, panels: dict[str, Predictions], columns: int) -> None:
    lines = -(-len(panels) // columns)
    axes = canvas.subplots(2 * lines, columns, squeeze=False, sharex=True, height_ratios=[3, 1] * lines)
    handles: dict[str, Any] = {}
    for k in range(columns * lines):
        for ax in axes[2 * (k // columns) : 2 * (k // columns) + 2, k % columns]:
            ax.set_axis_off() if k >= len(panels) else ax.set_xlim(0, 1)
    most = max(float(binned(one)[0].max()) for one in panels.values())
    for k, (label, one) in enumerate(panels.items()):
        line, column = 2 * (k // columns), k % columns
        above, below = axes[line, column], axes[line + 1, column]
        _panel(above, below, one, look(method_of(label))["color"], handles)
        below.set_ylim(0.5, 2 * most)
        name_panel(above, label, f"seed {one.run.seed}, ECE {ece(one):.3f}")
        above.tick_params(labelleft=column == 0)
        below.tick_params(labelleft=column == 0, labelbottom=True)
        if k + columns >= len(panels):
            below.set_xlabel("largest probability", fontsize="small")
    for line in range(lines):
        axes[2 * line, 0].set_ylabel("accuracy")
        axes[2 * line + 1, 0].set_ylabel("images")
    legend_below(canvas, handles)


def _panel(above: Any, below: Any, one: Predictions, colour: Any, handles: dict[str, Any]) -> None:
    counts, sure, right = binned(one)
    there = counts > 0
    low, high = wilson(right[there], counts[there])
    (handles["calibrated"],) = above.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=0.9)
    bars = np.stack([right[there] - low, high - right[there]]).clip(min=0)
    style = {"marker": "o", "markersize": 3.5, "linewidth": 1.0, "elinewidth": 0.8}
    drawn = above.errorbar(sure[there], right[there], yerr=bars, color=colour, **style)
    handles.setdefault("accuracy in a bin, with its 95 % interval", drawn)
    above.set_ylim(-0.02, 1.02)
    below.stairs(counts, np.linspace(0, 1, BINS + 1), fill=True, color=colour, alpha=0.6)
    below.set_yscale("log")
