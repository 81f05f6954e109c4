"""A target in one or two dimensions and the draws of each method, side by side on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import Result, UsageError
from harness.reports import FieldScore, Figure, Request
from reports.figures import plane
from reports.figures.parts import (
    Array,
    FieldReport,
    Panel,
    kept_draws,
    legend_below,
    name_panel,
    panel_figure,
    shown,
    task_of,
)

if TYPE_CHECKING:
    from harness.reports import Store

POINTS = 2_000
"""Draws shown as points, evenly spaced, if there are too few for a histogram."""
SAVED = "#c1702c"


class Density(FieldReport):
    """A figure for each task with a `log_density` in one or two dimensions, protocol, number of chains and budget.

    It shows the target, and a histogram of the draws of each method on the same scale, so that modes that are missed,
    too wide or too heavy can be seen. If the draws are too few for it they are points over the target's contours.
    """

    name: ClassVar[str] = "density"

    shown = shown("figure", "method", seed="", draws=",")

    def build(self, store: Store, request: Request) -> Result:
        report = super().build(store, request)
        if request.tasks and report.notes and not report.figures:
            raise UsageError("; ".join(report.notes))
        return report

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        task = task_of(score.groups[0], request)
        if task.dim() > 2 or not hasattr(task, "log_density"):
            note = f"{score.groups[0].task} has no density in one or two dimensions to draw"
            return Result(notes=[note] if request.tasks else [])
        panels, missing = kept_draws(score)
        records = [panel.record(name, draws=panel.count) for panel in panels]
        figures = [_figure(name, score, task, panels)] if panels else []
        return Result(records=records, figures=figures, notes=missing)


def _figure(name: str, score: FieldScore, task: Any, panels: Sequence[Panel]) -> Figure:
    size: dict[str, Any] = {"panel": (2.9, 2.9), "margin": (0.7, 0.75), "least": 5.0}
    if task.dim() == 1:
        return panel_figure(
            name, score, len(panels), lambda canvas, axes: _draw_line(canvas, axes, task, panels),
            "Bars: the draws of all chains. Line: the target.", labels=(r"$\theta$", "density"), **size,
        )  # fmt: skip
    caption = (
        "Colours: the density, by the share of the draws in each cell; blue is above the target's highest. Panels of "
        "few draws show them as points over the target's contours, which halve the density from line to line."
    )
    return panel_figure(
        name, score, len(panels) + 1, lambda canvas, axes: _draw(canvas, axes, task, panels), caption, **size
    )


def _draw(canvas: Any, axes: Sequence[Any], task: Any, panels: Sequence[Panel]) -> None:
    from matplotlib import colormaps

    ends = plane.window(task)
    target = _target(task, fine := plane.edges(ends, plane.CELLS[0]))
    style = {"cmap": colormaps["magma_r"].with_extremes(over="#1f5fbf"), "vmin": 0.0, "vmax": float(target.max())}
    drawn = plane.show(axes[0], ends, target, **style)
    name_panel(axes[0], "target, exact")
    for panel, ax in zip(panels, axes[1:], strict=True):
        cells = plane.resolution(panel.flat, ends)
        if cells is None:
            _points(ax, panel, plane.middles(fine), target)
        else:
            bounds = plane.edges(ends, cells)
            plane.show(ax, ends, plane.density(panel.flat, bounds, panel.shares), **style)
        ax.set(xlim=ends[0], ylim=ends[1], aspect="equal")
        points = ", as points" if cells is None else ""
        name_panel(ax, panel.title, f"{panel.count:,} draws{points}")
    label = "density (blue: above the target's highest)"
    canvas.colorbar(drawn, ax=axes, label=label, shrink=0.9, pad=0.02, extend="max")


def _points(ax: Any, panel: Panel, ticks: Sequence[Array], target: Array) -> None:
    """Draw points over the contours of the target."""
    ax.contour(*ticks, target, levels=target.max() / 2.0 ** np.arange(6, 0, -1), colors="0.75", linewidths=0.5)
    chosen = np.unique(np.linspace(0, panel.count - 1, POINTS).round().astype(int))
    ax.scatter(*panel.flat[chosen].T, s=3, color=SAVED, alpha=0.6, linewidths=0, rasterized=True)


def _draw_line(canvas: Any, axes: Sequence[Any], task: Any, panels: Sequence[Panel]) -> None:
    truth = task.truth()
    low, high = truth.mean[0] - 3.5 * truth.sd[0], truth.mean[0] + 3.5 * truth.sd[0]
    x = np.linspace(low, high, 400)
    density = np.exp(task.log_density(x[:, None]))
    for panel, ax in zip(panels, axes, strict=True):
        edges = np.linspace(low, high, int(np.clip(4 * panel.count ** (1 / 3), 20, 80)) + 1)
        counts, _ = np.histogram(panel.flat[:, 0], bins=edges, weights=panel.shares)
        total = panel.count if panel.shares is None else 1.0
        ax.stairs(counts / (total * (edges[1] - edges[0])), edges, fill=True, color=SAVED, alpha=0.6, label="draws")
        ax.plot(x, density, color="#1f4e79", linewidth=1.2, label="target")
        ax.set(ylim=(0, 1.5 * density.max()))
        name_panel(ax, panel.title, f"{panel.count:,} draws")
    legend_below(canvas, {handle.get_label(): handle for handle in axes[0].get_legend_handles_labels()[0]})


def _target(task: Any, bounds: Sequence[Array]) -> Array:
    """Return the mean density in each cell, (y, x), from 3 x 3 points."""
    inner = [(e[:-1, None] + (e[1:] - e[:-1])[:, None] * np.array([1, 3, 5]) / 6).ravel() for e in bounds]
    x, y = np.meshgrid(*inner)
    density = np.exp(plane.log_density(task, np.column_stack([x.ravel(), y.ravel()]))).reshape(x.shape)
    return np.asarray(density.reshape(len(bounds[1]) - 1, 3, len(bounds[0]) - 1, 3).mean(axis=(1, 3)))
