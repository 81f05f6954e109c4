"""Energy contours of a two-dimensional target, and those that draws would make one believe."""

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

DRAWS = 4_000
"""Most draws that an estimate is made of."""

LEVELS = np.arange(0.25, 7.0, 0.75)
"""Of the energy above the least of the target."""

CELLS = 90


class Contours(Report):
    """A figure for each task with a two-dimensional `log_density`: contours of -log pi, and of -log of the density that
    a Gaussian kernel of half of Scott's bandwidth estimates from each method's draws, at the same levels.
    """

    name: ClassVar[str] = "contours"
    summary: ClassVar[str] = "energy contours, true and estimated from draws"

    def build(self, store: Store, request: Request) -> Result:
        figures, records, notes = [], [], []
        for field in load_fields(store, request):
            task = task_of(field[0], request)
            if task.dim() != 2 or not hasattr(task, "log_density"):
                continue
            panels, missing = kept_draws(store, field)
            notes += missing
            if panels:
                figures.append(_figure(field, task, panels))
                records += [_record(figures[-1].name, panel) for panel in panels]
        columns = [Column(key, key, "right" if key == "seed" else "left") for key in ("figure", "method", "seed")]
        return Result([Table("Panels", columns, records)] if records else [], records, figures, notes)


def _record(figure: str, panel: Panel) -> dict[str, Any]:
    group = panel.group
    return {
        "figure": figure, "task": group.task, "task_version": group.task_version, "protocol": group.protocol,
        "method": panel.label, "chains": group.chains, "budget": group.budget, "steps": group.steps,
        "seed": panel.run.seed, "run_keys": [panel.run.key],
    }  # fmt: skip


def _figure(field: Sequence[Group], task: Any, panels: Sequence[Panel]) -> Figure:
    first = field[0]
    columns = min(len(panels) + 1, 4)
    sd = task.truth().sd
    height = 2.5 * float(sd[1] / sd[0]) + 0.5
    return Figure(
        name=f"contours-{first.task}-{first.protocol}-{first.budget.replace('=', '-')}-{first.chains}x",
        draw=lambda canvas: _draw(canvas, task, panels, columns, title(field)),
        size=(max(2.7 * columns + 0.4, 7.2), height * -(-(len(panels) + 1) // columns) + 0.5),
        caption=title(field),
    )


def _draw(canvas: Any, task: Any, panels: Sequence[Panel], columns: int, heading: str) -> None:
    truth = task.truth()
    ticks = [np.linspace(m - 3.2 * s, m + 3.2 * s, CELLS) for m, s in zip(truth.mean, truth.sd, strict=True)]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*ticks)], axis=1)
    exact = -task.log_density(points)
    levels = exact.min() + LEVELS
    pictures = [("target", exact), *((f"{p.label}, seed {p.run.seed}", estimated(p.flat, points)) for p in panels)]
    axes = canvas.subplots(-(-len(pictures) // columns), columns, squeeze=False, sharex=True, sharey=True)
    for (name, energy), ax in zip(pictures, axes.flat, strict=False):
        ax.contour(*ticks, energy.reshape(CELLS, CELLS), levels=levels, cmap="viridis", linewidths=0.9)
        ax.set(title=name, aspect="equal")
    label_plane(axes, len(pictures))
    canvas.suptitle(heading, fontsize="medium")


def estimated(draws: Array, points: Array) -> Array:
    """-log of the kernel estimate of the density at points (n, 2); a large number where it is 0."""
    from scipy.stats import gaussian_kde

    chosen = draws[np.linspace(0, len(draws) - 1, min(DRAWS, len(draws))).round().astype(int)]
    if np.linalg.matrix_rank(np.cov(chosen.T)) < 2:
        return np.full(len(points), 1e3)
    density = gaussian_kde(chosen.T, lambda kernel: kernel.scotts_factor() / 2)(points.T)
    return np.asarray(-np.log(density.clip(min=1e-300)))
