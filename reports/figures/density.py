"""A target in one or two dimensions and what each method drew of it, side by side on one scale."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.reporting.report import Column, Figure, Report, Request, Result, Table
from harness.reporting.scoring import Group, load_fields, title
from harness.system.errors import UsageError
from reports.figures.draws import Panel, kept_draws, task_of

if TYPE_CHECKING:
    from harness.results.store import Store

Array = NDArray[np.float64]
CELLS = 120
DEPTH = 9.0
"""Where the log density is this far below its maximum, the picture ends."""


class Density(Report):
    """A figure for each task with a `log_density` in one or two dimensions, protocol, number of chains and budget: the
    target, and a histogram of the draws of each method on the same scale, so that modes that are missed, too wide or
    too heavy can be seen.
    """

    name: ClassVar[str] = "density"
    summary: ClassVar[str] = "a target in one or two dimensions and draws, side by side"

    def build(self, store: Store, request: Request) -> Result:
        figures: list[Figure] = []
        records: list[dict[str, Any]] = []
        notes: list[str] = []
        for field in load_fields(store, request):
            task = task_of(field[0], request)
            if task.dim() > 2 or not hasattr(task, "log_density"):
                if request.tasks:
                    notes.append(f"{field[0].task} has no density in one or two dimensions to draw")
                continue
            panels, missing = kept_draws(store, field)
            notes += missing
            if panels:
                figures.append(_figure(field, task, panels, {figure.name for figure in figures}))
                records += [_record(figures[-1].name, panel) for panel in panels]
        if not figures and request.tasks and notes:
            raise UsageError("; ".join(notes))
        columns = [Column(key, key, "right" if key in {"seed", "draws"} else "left") for key in _SHOWN]
        tables = [Table("Panels", columns, records)] if records else []
        return Result(tables=tables, records=records, figures=figures, notes=notes)


_SHOWN = ("figure", "method", "seed", "draws")


def _record(figure: str, panel: Panel) -> dict[str, Any]:
    group, run = panel.group, panel.run
    return {
        "figure": figure, "task": group.task, "task_version": group.task_version, "protocol": group.protocol,
        "method": panel.label, "chains": group.chains, "budget": group.budget, "steps": group.steps,
        "seed": run.seed, "draws": len(panel.flat), "run_keys": [run.key],
    }  # fmt: skip


def _figure(field: Sequence[Group], task: Any, panels: Sequence[Panel], taken: Collection[str]) -> Figure:
    first = field[0]
    name = f"density-{first.task}-{first.protocol}-{first.budget.replace('=', '-')}-{first.chains}x"
    if name in taken:  # the same but for settings of the task
        name += f"-{first.key[:8]}"
    columns = min(len(panels) + 1, 4)
    lines = -(-(len(panels) + 1) // columns)
    draw = _draw if task.dim() == 2 else _draw_line
    return Figure(
        name=name,
        draw=lambda canvas: draw(canvas, task, panels, columns, title(field)),
        size=(2.9 * columns + 0.7, 2.9 * lines + 0.75),
        caption=title(field),
    )


def _draw(canvas: Any, task: Any, panels: Sequence[Panel], columns: int, heading: str) -> None:
    edges = [_edges(task, axis) for axis in (0, 1)]
    target = _target(task, edges)
    lines = -(-(len(panels) + 1) // columns)
    axes = canvas.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    style = {
        "origin": "lower", "extent": (edges[0][0], edges[0][-1], edges[1][0], edges[1][-1]), "cmap": "magma_r",
        "vmin": 0.0, "vmax": float(target.max()), "interpolation": "nearest",
    }  # fmt: skip
    shown = axes.flat[0].imshow(target, **style)
    axes.flat[0].set_title("target")
    for panel, ax in zip(panels, axes.flat[1:], strict=False):
        ax.imshow(_histogram(panel.flat, edges), **style)
        ax.set_title(f"{panel.label}, seed {panel.run.seed}")
    for ax in axes.flat[len(panels) + 1 :]:
        ax.set_axis_off()
    for ax in axes[-1]:
        ax.set_xlabel(r"$\theta_1$")
    for ax in axes[:, 0]:
        ax.set_ylabel(r"$\theta_2$")
    canvas.colorbar(shown, ax=list(axes.flat), label="density", shrink=0.9, pad=0.02, extend="max")
    canvas.suptitle(heading, fontsize="medium")


def _draw_line(canvas: Any, task: Any, panels: Sequence[Panel], columns: int, heading: str) -> None:
    """Histograms of one coordinate as steps, the density over them as a line."""
    truth = task.truth()
    edges = np.linspace(truth.mean[0] - 3.5 * truth.sd[0], truth.mean[0] + 3.5 * truth.sd[0], 81)
    x = np.linspace(edges[0], edges[-1], 400)
    density = np.exp(task.log_density(x[:, None]))
    lines = -(-len(panels) // columns)
    axes = canvas.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for panel, ax in zip(panels, axes.flat, strict=False):
        counts, _ = np.histogram(panel.flat[:, 0], bins=edges)
        ax.stairs(counts / (len(panel.flat) * (edges[1] - edges[0])), edges, fill=True, color="#c1702c", alpha=0.6)
        ax.plot(x, density, color="#1f4e79", linewidth=1.2)
        ax.set(title=f"{panel.label}, seed {panel.run.seed}", ylim=(0, 1.5 * density.max()))
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for i, ax in enumerate(axes.flat[: len(panels)]):
        if i + columns >= len(panels):  # the lowest of its column
            ax.tick_params(labelbottom=True)
            ax.set_xlabel(r"$\theta$")
    for ax in axes[:, 0]:
        ax.set_ylabel("density")
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
