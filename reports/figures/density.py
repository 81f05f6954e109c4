"""A two-dimensional target and what each method drew of it, side by side on one scale."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.hookspecs import Info
from harness.registry import load, registry
from harness.report import Column, Figure, Report, Request, Result, Table
from harness.scoring import Group, Run, labels, load_fields, title

if TYPE_CHECKING:
    from harness.store import Store

Array = NDArray[np.float64]
CELLS = 120
DEPTH = 9.0
"""Where the log density is this far below its maximum, the picture ends."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One group's draws: of its lowest finished seed, all chains of the run together."""

    label: str
    group: Group
    run: Run
    draws: Array


class Density(Report):
    """A figure for each task with a two-dimensional `log_density`, protocol, number of chains and budget: the target,
    and a histogram of the draws of each method on the same colour scale, so that modes that are missed, too wide or
    too heavy can be seen.
    """

    name: ClassVar[str] = "density"
    summary: ClassVar[str] = "a two-dimensional target and draws, side by side"

    def build(self, store: Store, request: Request) -> Result:
        figures: list[Figure] = []
        records: list[dict[str, Any]] = []
        notes: list[str] = []
        for field in load_fields(store, request):
            task = _task(field[0], request)
            if task is None:
                if request.tasks:
                    notes.append(f"{field[0].task} has no two-dimensional density to draw")
                continue
            panels, missing = _panels(store, field)
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


def _task(group: Group, request: Request) -> Any:
    """The task with the group's settings, if it has a density in two dimensions."""
    offer = (request.registry or registry()).find("tasks", group.task)
    own = {name.removeprefix("task."): v for name, v in group.settings.items() if name.startswith("task.")}
    assert isinstance(offer.info, Info)
    task = load(offer.info.target)(**own)
    return task if task.dim() == 2 and hasattr(task, "log_density") else None


def _panels(store: Store, field: Sequence[Group]) -> tuple[list[Panel], list[str]]:
    from safetensors.numpy import load_file

    names = labels(field)
    panels, missing = [], []
    for group in field:
        label = names[group.key]
        run = min(group.done, key=lambda run: run.seed, default=None)
        path = store.path.parent / run.path / "draws.safetensors" if run else Path()
        if run is None or not path.is_file():
            missing.append(f"{label}: no finished run with draws")
            continue
        draws = load_file(path)["draws"].astype(np.float64)
        panels.append(Panel(label, group, run, draws.reshape(-1, draws.shape[-1])))
    return panels, missing


def _record(figure: str, panel: Panel) -> dict[str, Any]:
    group, run = panel.group, panel.run
    return {
        "figure": figure, "task": group.task, "task_version": group.task_version, "protocol": group.protocol,
        "method": panel.label, "chains": group.chains, "budget": group.budget, "steps": group.steps,
        "seed": run.seed, "draws": len(panel.draws), "run_keys": [run.key],
    }  # fmt: skip


def _figure(field: Sequence[Group], task: Any, panels: Sequence[Panel], taken: Collection[str]) -> Figure:
    first = field[0]
    name = f"density-{first.task}-{first.protocol}-{first.budget.replace('=', '-')}-{first.chains}x"
    if name in taken:  # the same but for settings of the task
        name += f"-{first.key[:8]}"
    columns = min(len(panels) + 1, 4)
    lines = -(-(len(panels) + 1) // columns)
    return Figure(
        name=name,
        draw=lambda canvas: _draw(canvas, task, panels, columns, title(field)),
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
        ax.imshow(_histogram(panel.draws, edges), **style)
        ax.set_title(f"{panel.label}, seed {panel.run.seed}")
    for ax in axes.flat[len(panels) + 1 :]:
        ax.set_axis_off()
    for ax in axes[-1]:
        ax.set_xlabel(r"$\theta_1$")
    for ax in axes[:, 0]:
        ax.set_ylabel(r"$\theta_2$")
    canvas.colorbar(shown, ax=list(axes.flat), label="density", shrink=0.9, pad=0.02, extend="max")
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
