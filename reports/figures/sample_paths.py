"""Thinned paths of chains across the energy contours of a two-dimensional target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from harness import Result
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

POINTS = 400
"""Most points of a path: 20,000 draws are thinned by 50."""

CELLS = 140
SHADES = 14
FEW = 0.05
"""If less than this share of a path is within the window, the panel says where the path is."""


class SamplePaths(FieldReport):
    """A figure for each two-dimensional task with a known energy: U in shades of grey, and on it the kept draws of
    chain 0 of each method's lowest seed, evenly thinned, from the dark to the bright end of the colours.

    A task whose data differ between runs gives U of a run as `run_energy(points, seed)`; another task gives its
    `log_density`. The figure shows the task's `window`, or the region where its density is not negligible; if most of a
    path is outside, the panel says where the path is.
    """

    name: ClassVar[str] = "sample-paths"

    shown = shown("figure", "method", seed="", thinned_by="")

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        task = task_of(score.groups[0], request)
        if task.dim() != 2 or not (hasattr(task, "run_energy") or hasattr(task, "log_density")):
            return Result()
        panels, missing = kept_draws(score)
        figures = [_figure(name, score, task, panels)] if panels else []
        records = [panel.record(name, thinned_by=_stride(panel)) for panel in panels]
        return Result(records=records, figures=figures, notes=missing)


def _stride(panel: Panel) -> int:
    return -(-len(panel.steps) // POINTS)


def _path(panel: Panel) -> Array:
    """Return chain 0, thinned: (n, 2)."""
    return panel.draws[:: _stride(panel), 0]


def _figure(name: str, score: FieldScore, task: Any, panels: Sequence[Panel]) -> Figure:
    caption = (
        f"Points: draws of one chain, at most {POINTS}, evenly spaced, joined in their order, which is their "
        f"colour. Grey: the energy U in {SHADES} shades of equal areas, white is the lowest. Cross: the target's mean."
    )
    return panel_figure(
        name, score, len(panels), lambda canvas, axes: _draw(canvas, axes, task, panels), caption, panel=(3.2, 3.2),
        margin=(0.9, 0.8), most=3,
    )  # fmt: skip


def _draw(canvas: Any, axes: Sequence[Any], task: Any, panels: Sequence[Panel]) -> None:
    from matplotlib.patches import Patch

    ends = _window(task, panels)
    surfaces: dict[int, Array] = {}
    for panel, ax in zip(panels, axes, strict=True):
        seed = panel.run.seed
        if seed not in surfaces:
            surfaces[seed] = _surface(task, ends, seed)
        plane.show(ax, ends, surfaces[seed], cmap="Greys", vmin=0, vmax=1.6 * SHADES, aspect="auto")
        path = _path(panel)
        ax.plot(*path.T, color="#c1702c", linewidth=0.4, alpha=0.6)
        points = ax.scatter(
            *path.T, c=np.linspace(0, 100, len(path)), cmap="plasma", vmin=0, vmax=100, s=5, linewidths=0, zorder=3
        )
        (cross,) = ax.plot(
            *_target(task), marker="x", color="#1b7837", markersize=9, markeredgewidth=2, linestyle="none", zorder=4
        )
        ax.set(xlim=ends[0], ylim=ends[1])
        name_panel(ax, panel.title)
        inside = np.all([(low <= x) & (x <= high) for x, (low, high) in zip(path.T, ends, strict=True)], axis=0)
        if inside.mean() < FEW:
            x, y = np.median(path, axis=0)
            words = f"{inside.mean():.0%} of the path is in this\nwindow; its middle is at\n({x:.3g}, {y:.3g})"
            ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center", fontsize="small", zorder=5,
                    bbox={"facecolor": "white", "edgecolor": "0.6"})  # fmt: skip
    canvas.colorbar(points, ax=axes, label="draws of the chain, first to last (%)", shrink=0.9, pad=0.02)
    grey = Patch(facecolor="0.6", label="")
    legend_below(canvas, {"energy U: the darker, the higher": grey, "mean of the target": cross})


def _target(task: Any) -> list[float]:
    """Return the mean of the target: that of the truth or, if each run has its own, the targets of the metrics."""
    truth = task.truth()
    if truth is not None:
        return [float(value) for value in truth.mean]
    aims = {metric.name: metric.target for metric in task.metrics}
    return [aims.get("theta1") or np.nan, aims.get("theta2") or np.nan]


def _window(task: Any, panels: Sequence[Panel]) -> list[tuple[float, float]]:
    """Return the ends of each axis: of the task's own window, of the target, or of the region of the paths."""
    if hasattr(task, "window"):
        return [(float(low), float(high)) for low, high in task.window]
    if task.truth() is not None and hasattr(task, "log_density"):
        return plane.window(task)
    low, high = np.quantile(np.concatenate([_path(panel) for panel in panels]), [0.02, 0.98], axis=0)
    margin = 0.06 * (high - low) + 1e-9
    return list(zip((low - margin).tolist(), (high + margin).tolist(), strict=True))


def _surface(task: Any, ends: Sequence[tuple[float, float]], seed: int) -> Array:
    """Return the shade of each cell, (y, x): 0 for the lowest energies, SHADES - 1 for the highest."""
    points = plane.centres(plane.edges(ends, CELLS))
    energy = task.run_energy(points, seed) if hasattr(task, "run_energy") else -task.log_density(points)
    limits = np.quantile(energy, np.linspace(0, 1, SHADES + 1)[1:-1])
    return np.asarray(np.searchsorted(limits, energy, side="right").reshape(CELLS, CELLS), dtype=np.float64)
