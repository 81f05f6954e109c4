"""Thinned paths of chains across the energy contours of a two-dimensional target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.reporting.report import Column, Figure, Report, Request, Result, Table
from harness.reporting.scoring import Group, load_fields, title
from reports.figures.draws import Panel, kept_draws, label_plane, task_of

if TYPE_CHECKING:
    from harness.results.store import Store

Array = NDArray[np.float64]

POINTS = 400
"""Of a path, at most: 20,000 draws are thinned by 50."""

CELLS = 140


class SamplePaths(Report):
    """A figure for each two-dimensional task that knows its energy: contours of U, and on them the kept draws of chain
    0 of each method's lowest seed, evenly thinned, from the dark to the bright end of the colours.

    A task whose data are the run's own gives U of a run as `run_energy(points, seed)`; another its `log_density`. The
    picture is of the task's `window`, or of the middle 96 in 100 points of all paths; a cross marks the target's mean.
    """

    name: ClassVar[str] = "sample-paths"
    summary: ClassVar[str] = "energy contours, and thinned paths of chains across them"

    def build(self, store: Store, request: Request) -> Result:
        figures, records, notes = [], [], []
        for field in load_fields(store, request):
            task = task_of(field[0], request)
            if task.dim() != 2 or not (hasattr(task, "run_energy") or hasattr(task, "log_density")):
                continue
            panels, missing = kept_draws(store, field)
            notes += missing
            if panels:
                figures.append(_figure(field, task, panels))
                records += [_record(figures[-1].name, panel) for panel in panels]
        columns = [Column(key, key) for key in ("figure", "method")]
        columns += [Column(key, key.replace("_", " "), "right") for key in ("seed", "thinned_by")]
        return Result([Table("Panels", columns, records)] if records else [], records, figures, notes)


def _stride(panel: Panel) -> int:
    return -(-len(panel.draws) // POINTS)


def _path(panel: Panel) -> Array:
    """Chain 0, thinned: (n, 2)."""
    return panel.draws[:: _stride(panel), 0]


def _record(figure: str, panel: Panel) -> dict[str, Any]:
    group = panel.group
    return {
        "figure": figure, "task": group.task, "task_version": group.task_version, "protocol": group.protocol,
        "method": panel.label, "chains": group.chains, "budget": group.budget, "steps": group.steps,
        "seed": panel.run.seed, "thinned_by": _stride(panel), "run_keys": [panel.run.key],
    }  # fmt: skip


def _figure(field: Sequence[Group], task: Any, panels: Sequence[Panel]) -> Figure:
    first = field[0]
    columns = min(len(panels), 3)
    return Figure(
        name=f"sample-paths-{first.task}-{first.protocol}-{first.budget.replace('=', '-')}-{first.chains}x",
        draw=lambda canvas: _draw(canvas, task, panels, columns, title(field)),
        size=(max(3.2 * columns + 0.4, 7.2), 3.2 * -(-len(panels) // columns) + 0.6),
        caption=title(field),
    )


def _draw(canvas: Any, task: Any, panels: Sequence[Panel], columns: int, heading: str) -> None:
    from matplotlib.colors import ListedColormap

    shades = ListedColormap([str(shade) for shade in np.linspace(1.0, 0.55, 14)])  # the deepest are white
    window = _window(task, panels)
    surfaces: dict[int, Array] = {}
    axes = canvas.subplots(-(-len(panels) // columns), columns, squeeze=False, sharex=True, sharey=True)
    for panel, ax in zip(panels, axes.flat, strict=False):
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
    label_plane(axes, len(panels))
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
