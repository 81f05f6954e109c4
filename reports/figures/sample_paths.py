"""Thinned paths of chains across the energy contours of a two-dimensional target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from harness import FieldScore, Figure, Request, Result
from reports.figures.parts import Array, FieldReport, Panel, grid, kept_draws, shown, task_of

POINTS = 400
"""Of a path, at most: 20,000 draws are thinned by 50."""

CELLS = 140


class SamplePaths(FieldReport):
    """A figure for each two-dimensional task that knows its energy: contours of U, and on them the kept draws of chain
    0 of each method's lowest seed, evenly thinned, from the dark to the bright end of the colours.

    A task whose data are the run's own gives U of a run as `run_energy(points, seed)`; another its `log_density`. The
    picture is of the task's `window`, or of the middle 96 in 100 points of all paths; a cross marks the target's mean.
    """

    name: ClassVar[str] = "sample-paths"

    shown = shown("figure", "method", seed="", thinned_by="")

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        task = task_of(score.groups[0], request)
        if task.dim() != 2 or not (hasattr(task, "run_energy") or hasattr(task, "log_density")):
            return Result()
        panels, missing = kept_draws(score)
        figures = [_figure(name, score.title, task, panels)] if panels else []
        records = [panel.record(name, thinned_by=_stride(panel)) for panel in panels]
        return Result(records=records, figures=figures, notes=missing)


def _stride(panel: Panel) -> int:
    return -(-len(panel.draws) // POINTS)


def _path(panel: Panel) -> Array:
    """Chain 0, thinned: (n, 2)."""
    return panel.draws[:: _stride(panel), 0]


def _figure(name: str, heading: str, task: Any, panels: Sequence[Panel]) -> Figure:
    columns = min(len(panels), 3)
    size = (max(3.2 * columns + 0.4, 7.2), 3.2 * -(-len(panels) // columns) + 0.6)
    return Figure(name, lambda canvas: _draw(canvas, task, panels, columns, heading), size, heading)


def _draw(canvas: Any, task: Any, panels: Sequence[Panel], columns: int, heading: str) -> None:
    from matplotlib.colors import ListedColormap

    shades = ListedColormap([str(shade) for shade in np.linspace(1.0, 0.55, 14)])  # the deepest are white
    window = _window(task, panels)
    surfaces: dict[int, Array] = {}
    for panel, ax in zip(panels, grid(canvas, len(panels), columns, r"$\theta_1$", r"$\theta_2$"), strict=True):
        seed = panel.run.seed
        if seed not in surfaces:
            surfaces[seed] = _surface(task, window, seed)
        heights = surfaces[seed]
        ax.contourf(*window, heights, levels=np.quantile(heights, np.linspace(0, 1, 15)), cmap=shades)
        path = _path(panel)
        ax.plot(*path.T, color="#c1702c", linewidth=0.4, alpha=0.6)
        ax.scatter(*path.T, c=np.arange(len(path)), cmap="plasma", s=5, linewidths=0, zorder=3)
        ax.plot(*_target(task), marker="x", color="#1b7837", markersize=9, markeredgewidth=2, zorder=4)
        ax.set(title=f"{panel.label}, seed {seed}", xlim=window[0][[0, -1]], ylim=window[1][[0, -1]])
    canvas.suptitle(heading, fontsize="medium")


def _target(task: Any) -> list[float]:
    """The mean that is sampled for: that of the truth or, where each run has its own, what the metrics aim at."""
    truth = task.truth()
    if truth is not None:
        return [float(value) for value in truth.mean]
    aims = {metric.name: metric.target for metric in task.metrics}
    return [aims.get("theta1") or np.nan, aims.get("theta2") or np.nan]


def _window(task: Any, panels: Sequence[Panel]) -> list[Array]:
    """Ticks along each axis: the task's own window, or where the paths are."""
    if hasattr(task, "window"):
        return [np.linspace(low, high, CELLS) for low, high in task.window]
    points = np.concatenate([_path(panel) for panel in panels])
    low, high = np.quantile(points, [0.02, 0.98], axis=0)
    margin = 0.06 * (high - low) + 1e-9
    return [np.linspace(a, b, CELLS) for a, b in zip(low - margin, high + margin, strict=True)]


def _surface(task: Any, window: Sequence[Array], seed: int) -> Array:
    points = np.stack([axis.ravel() for axis in np.meshgrid(*window)], axis=1)
    energy = task.run_energy(points, seed) if hasattr(task, "run_energy") else -task.log_density(points)
    return np.asarray(energy.reshape(CELLS, CELLS))
