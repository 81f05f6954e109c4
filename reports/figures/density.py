"""A target in one or two dimensions and what each method drew of it, side by side on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import FieldScore, Figure, Request, Result, UsageError
from reports.figures.parts import Array, FieldReport, Panel, grid, kept_draws, shown, task_of

if TYPE_CHECKING:
    from harness import Store

CELLS = 120
DEPTH = 9.0
"""Where the log density is this far below its maximum, the picture ends."""


class Density(FieldReport):
    """A figure for each task with a `log_density` in one or two dimensions, protocol, number of chains and budget: the
    target, and a histogram of the draws of each method on the same scale, so that modes that are missed, too wide or
    too heavy can be seen.
    """

    name: ClassVar[str] = "density"

    shown = shown("figure", "method", seed="", draws="")

    def build(self, store: Store, request: Request) -> Result:
        made = super().build(store, request)
        if request.tasks and made.notes and not made.figures:
            raise UsageError("; ".join(made.notes))
        return made

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        task = task_of(score.groups[0], request)
        if task.dim() > 2 or not hasattr(task, "log_density"):
            note = f"{score.groups[0].task} has no density in one or two dimensions to draw"
            return Result(notes=[note] if request.tasks else [])
        panels, missing = kept_draws(score)
        figures = [_figure(name, score.title, task, panels)] if panels else []
        return Result(records=[p.record(name, draws=len(p.flat)) for p in panels], figures=figures, notes=missing)


def _figure(name: str, heading: str, task: Any, panels: Sequence[Panel]) -> Figure:
    columns = min(len(panels) + 1, 4)
    lines = -(-(len(panels) + 1) // columns)
    draw = _draw if task.dim() == 2 else _draw_line
    size = (2.9 * columns + 0.7, 2.9 * lines + 0.75)
    return Figure(name, lambda canvas: draw(canvas, task, panels, columns, heading), size, heading)


def _draw(canvas: Any, task: Any, panels: Sequence[Panel], columns: int, heading: str) -> None:
    edges = [_edges(task, axis) for axis in (0, 1)]
    target = _target(task, edges)
    axes = list(grid(canvas, len(panels) + 1, columns, r"$\theta_1$", r"$\theta_2$"))
    style = {
        "origin": "lower", "extent": (edges[0][0], edges[0][-1], edges[1][0], edges[1][-1]), "cmap": "magma_r",
        "vmin": 0.0, "vmax": float(target.max()), "interpolation": "nearest",
    }  # fmt: skip
    drawn = axes[0].imshow(target, **style)
    axes[0].set_title("target")
    for panel, ax in zip(panels, axes[1:], strict=True):
        ax.imshow(_histogram(panel.flat, edges), **style)
        ax.set_title(f"{panel.label}, seed {panel.run.seed}")
    canvas.colorbar(drawn, ax=axes, label="density", shrink=0.9, pad=0.02, extend="max")
    canvas.suptitle(heading, fontsize="medium")


def _draw_line(canvas: Any, task: Any, panels: Sequence[Panel], columns: int, heading: str) -> None:
    truth = task.truth()
    edges = np.linspace(truth.mean[0] - 3.5 * truth.sd[0], truth.mean[0] + 3.5 * truth.sd[0], 81)
    x = np.linspace(edges[0], edges[-1], 400)
    density = np.exp(task.log_density(x[:, None]))
    for panel, ax in zip(panels, grid(canvas, len(panels), columns, r"$\theta$", "density"), strict=True):
        counts, _ = np.histogram(panel.flat[:, 0], bins=edges)
        ax.stairs(counts / (len(panel.flat) * (edges[1] - edges[0])), edges, fill=True, color="#c1702c", alpha=0.6)
        ax.plot(x, density, color="#1f4e79", linewidth=1.2)
        ax.set(title=f"{panel.label}, seed {panel.run.seed}", ylim=(0, 1.5 * density.max()))
    canvas.suptitle(heading, fontsize="medium")


def _target(task: Any, edges: Sequence[Array]) -> Array:
    """The mean density in each cell, (y, x), from 3 x 3 points."""
    inner = [(e[:-1, None] + (e[1:] - e[:-1])[:, None] * np.array([1, 3, 5]) / 6).ravel() for e in edges]
    x, y = np.meshgrid(*inner)
    density = np.exp(task.log_density(np.column_stack([x.ravel(), y.ravel()]))).reshape(x.shape)
    return np.asarray(density.reshape(len(edges[1]) - 1, 3, len(edges[0]) - 1, 3).mean(axis=(1, 3)))


def _histogram(draws: Array, edges: Sequence[Array]) -> Array:
    """The density of the draws in each cell, (y, x); draws outside count in the total, so nothing is rescaled."""
    counts, _, _ = np.histogram2d(draws[:, 1], draws[:, 0], bins=[edges[1], edges[0]])
    area = (edges[0][1] - edges[0][0]) * (edges[1][1] - edges[1][0])
    return np.asarray(counts / (len(draws) * area))


def _edges(task: Any, axis: int) -> Array:
    """Cell edges along an axis, over where the density is not negligible."""
    truth = task.truth()
    grids = [np.linspace(m - 5 * s, m + 5 * s, 161) for m, s in zip(truth.mean, truth.sd, strict=True)]
    x, y = np.meshgrid(*grids)
    logs = task.log_density(np.column_stack([x.ravel(), y.ravel()])).reshape(x.shape)
    kept = (x, y)[axis][logs > logs.max() - DEPTH]
    margin = grids[axis][1] - grids[axis][0]
    return np.linspace(kept.min() - margin, kept.max() + margin, CELLS + 1)
