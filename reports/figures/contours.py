"""The energy of a two-dimensional target, and the energy that each method's draws show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from harness import Result
from harness.reports import FieldScore, Request
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

LEVELS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Levels of the exact energy above its minimum, in nats."""
TOP = 8.0
"""The energy at which the colours end."""
OUTLINE = 4.0
"""The level that is also shown in the panels of the methods."""
UNSEEN = 3.0
"""Most expected draws of a cell that has none, at 95 %: exp(-3) = 0.05."""


class Contours(FieldReport):
    """A figure for each task with a two-dimensional `log_density`: U = -log pi above its minimum as lines.

    Under the lines, for each method, are colours for U estimated from the share p of its draws in a cell of area a,
    -log(p / a).

    The draws are counted, not smoothed: a kernel fills the valleys between modes and shows barriers that are too low. A
    cell without draws has no colour: of n independent draws, none falls into it if U is above about log(n a / 3). Cells
    are as fine as the draws allow.
    """

    name: ClassVar[str] = "contours"
    shown = shown("figure", "method", seed="", draws=",")

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        task = task_of(score.groups[0], request)
        if task.dim() != 2 or not hasattr(task, "log_density"):
            return Result()
        panels, missing = kept_draws(score)
        if not panels:
            return Result(notes=missing)
        ends = plane.window(task)
        ratio = (ends[1][1] - ends[1][0]) / (ends[0][1] - ends[0][0])
        size: dict[str, Any] = {"panel": (2.7, 2.5 * ratio + 0.5), "margin": (1.1, 0.5)}
        caption = (
            "Colours: the energy -log density above its minimum, of the target and by the share of "
            f"a method's draws in each cell; white cells have no draw. Lines: the exact energy, at "
            f"{', '.join(f'{level:g}' for level in LEVELS)} nats in the target's panel, at {OUTLINE:g} in the others. "
            "Visible: where a cell of as many independent draws is empty at 95 %."
        )
        figure = panel_figure(
            name, score, len(panels) + 1, lambda canvas, axes: _draw(canvas, axes, task, panels, ends), caption, **size
        )
        return Result(records=[p.record(name, draws=p.count) for p in panels], figures=[figure], notes=missing)


def energies(draws: Array, bounds: Sequence[Array], shares: Array | None = None) -> Array:
    """Return -log of the density of the draws (n, 2) in each cell, (y, x); NaN in a cell without draws."""
    density = plane.density(draws, bounds, shares)
    return -np.log(np.where(density > 0, density, np.nan))


def visible(count: int, bounds: Sequence[Array]) -> float:
    """Return the energy above which `count` independent draws leave a cell empty."""
    return float(np.log(count * plane.area(bounds) / UNSEEN))


def _lines(ticks: Sequence[Array], energy: Array, level: float) -> list[Array]:
    """Return the contour at a level, each of its lines thinned to some 150 points."""
    from contourpy import contour_generator

    x, y = ticks
    lines = contour_generator(x, y, energy).lines(level)
    return [np.append(line[:: max(1, len(line) // 150)], line[-1:], axis=0) for line in map(np.asarray, lines)]


def _draw(
    canvas: Any, axes: Sequence[Any], task: Any, panels: Sequence[Panel], ends: Sequence[tuple[float, float]]
) -> None:
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

    fine = plane.edges(ends, plane.CELLS[0])
    energy = -task.log_density(plane.centres(fine)).reshape(plane.CELLS[0], plane.CELLS[0])
    lowest = float(energy.min())
    exact = energy - lowest
    ticks = plane.middles(fine)
    style = {"cmap": colormaps["viridis"], "vmin": 0.0, "vmax": TOP}
    drawn = plane.show(axes[0], ends, exact, **style)
    name_panel(axes[0], "target, exact")
    for level in LEVELS:
        axes[0].add_collection(LineCollection(_lines(ticks, exact, level), colors="white", linewidths=0.5))
    outline = _lines(ticks, exact, OUTLINE)
    for panel, ax in zip(panels, axes[1:], strict=True):
        bounds = plane.edges(ends, plane.resolution(panel.flat, ends) or plane.CELLS[-1])
        plane.show(ax, ends, energies(panel.flat, bounds, panel.shares) - lowest, **style)
        ax.add_collection(LineCollection(outline, colors="0.25", linewidths=0.6))
        limit = visible(panel.count, bounds) - lowest
        seen = f"visible to {limit:.1f} nats" if limit > 0 else "too few for an energy"
        name_panel(ax, panel.title, f"{panel.count:,} draws, {seen}")
    line = Line2D([], [], color="0.25", linewidth=0.8)
    legend_below(canvas, {f"exact energy {OUTLINE:g} nats above its minimum": line})
    canvas.colorbar(drawn, ax=axes, label="energy above its minimum (nats)", shrink=0.9, pad=0.02, extend="max")
