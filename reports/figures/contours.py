"""Energy contours of a two-dimensional target, and those that draws would make one believe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from harness import FieldScore, Figure, Request, Result
from reports.figures.parts import Array, FieldReport, Panel, grid, kept_draws, shown, task_of

DRAWS = 4_000
"""Most draws that an estimate is made of."""

LEVELS = np.arange(0.25, 7.0, 0.75)
"""Of the energy above the least of the target."""

CELLS = 90


class Contours(FieldReport):
    """A figure for each task with a two-dimensional `log_density`: contours of -log pi, and of -log of the density that
    a Gaussian kernel of half of Scott's bandwidth estimates from each method's draws, at the same levels.
    """

    name: ClassVar[str] = "contours"
    shown = shown("figure", "method", seed="")

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        task = task_of(score.groups[0], request)
        if task.dim() != 2 or not hasattr(task, "log_density"):
            return Result()
        panels, missing = kept_draws(score)
        figures = [_figure(name, score.title, task, panels)] if panels else []
        return Result(records=[panel.record(name) for panel in panels], figures=figures, notes=missing)


def _figure(name: str, heading: str, task: Any, panels: Sequence[Panel]) -> Figure:
    columns = min(len(panels) + 1, 4)
    sd = task.truth().sd
    height = 2.5 * float(sd[1] / sd[0]) + 0.5
    return Figure(
        name,
        lambda canvas: _draw(canvas, task, panels, columns, heading),
        (max(2.7 * columns + 0.4, 7.2), height * -(-(len(panels) + 1) // columns) + 0.5),
        heading,
    )


def _draw(canvas: Any, task: Any, panels: Sequence[Panel], columns: int, heading: str) -> None:
    truth = task.truth()
    ticks = [np.linspace(m - 3.2 * s, m + 3.2 * s, CELLS) for m, s in zip(truth.mean, truth.sd, strict=True)]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*ticks)], axis=1)
    exact = -task.log_density(points)
    levels = exact.min() + LEVELS
    pictures = [("target", exact), *((f"{p.label}, seed {p.run.seed}", estimated(p.flat, points)) for p in panels)]
    axes = grid(canvas, len(pictures), columns, r"$\theta_1$", r"$\theta_2$")
    for (name, energy), ax in zip(pictures, axes, strict=True):
        ax.contour(*ticks, energy.reshape(CELLS, CELLS), levels=levels, cmap="viridis", linewidths=0.9)
        ax.set(title=name, aspect="equal")
    canvas.suptitle(heading, fontsize="medium")


def estimated(draws: Array, points: Array) -> Array:
    """-log of the kernel estimate of the density at points (n, 2); a large number where it is 0."""
    from scipy.stats import gaussian_kde

    chosen = draws[np.linspace(0, len(draws) - 1, min(DRAWS, len(draws))).round().astype(int)]
    if np.linalg.matrix_rank(np.cov(chosen.T)) < 2:
        return np.full(len(points), 1e3)
    density = gaussian_kde(chosen.T, lambda kernel: kernel.scotts_factor() / 2)(points.T)
    return np.asarray(-np.log(density.clip(min=1e-300)))
