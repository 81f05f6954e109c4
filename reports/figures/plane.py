"""Draws in the plane: the window of a target, and histograms whose cells are as fine as the draws allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reports.figures.parts import Array

DEPTH = 9.0
"""The window ends where the log density is this far below its maximum."""
CELLS = (120, 90, 60, 45)
"""Numbers of cells along an axis, the finest first."""
PART = 2_000
"""Points at which a density is computed at once."""
ENOUGH = 8.0
"""Draws in the cell of a typical draw: the height of a cell is then accurate to some 35 %."""


def log_density(task: Any, points: Array) -> Array:
    """Return the log density of a task at points (n, 2), computed in parts that fit into a processor's cache."""
    parts = np.array_split(points, -(-len(points) // PART))
    return np.concatenate([np.asarray(task.log_density(part), dtype=np.float64) for part in parts])


def window(task: Any) -> list[tuple[float, float]]:
    """Return the ends of each axis, around the region where the density of a task with a truth is not negligible."""
    truth = task.truth()
    grids = [np.linspace(m - 5 * s, m + 5 * s, 161) for m, s in zip(truth.mean, truth.sd, strict=True)]
    points = np.meshgrid(*grids)
    logs = log_density(task, np.column_stack([axis.ravel() for axis in points])).reshape(points[0].shape)
    ends = []
    for axis, ticks in zip(points, grids, strict=True):
        kept, margin = axis[logs > logs.max() - DEPTH], ticks[1] - ticks[0]
        ends.append((float(kept.min() - margin), float(kept.max() + margin)))
    return ends


def edges(ends: Sequence[tuple[float, float]], cells: int) -> list[Array]:
    """Return the edges of the cells along each axis."""
    return [np.linspace(low, high, cells + 1) for low, high in ends]


def middles(bounds: Sequence[Array]) -> list[Array]:
    """Return the middles of the cells along each axis."""
    return [(edge[:-1] + edge[1:]) / 2 for edge in bounds]


def centres(bounds: Sequence[Array]) -> Array:
    """Return the centre of each cell, row by row, (n, 2)."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*middles(bounds))], axis=1)


def area(bounds: Sequence[Array]) -> float:
    """Return the area of a cell."""
    return float(np.prod([edge[1] - edge[0] for edge in bounds]))


def show(ax: Any, ends: Sequence[tuple[float, float]], cells: Array, **style: Any) -> Any:
    """Draw a value of each cell, (y, x), as a colour."""
    extent = (*ends[0], *ends[1])
    return ax.imshow(cells, origin="lower", extent=extent, interpolation="nearest", **style)


def histogram(draws: Array, bounds: Sequence[Array], shares: Array | None = None) -> Array:
    """Return the number of draws (n, 2) in each cell, (y, x), or the sum of their shares."""
    counts, _, _ = np.histogram2d(draws[:, 1], draws[:, 0], bins=[bounds[1], bounds[0]], weights=shares)
    return np.asarray(counts)


def density(draws: Array, bounds: Sequence[Array], shares: Array | None = None) -> Array:
    """Return the density of the draws in each cell, (y, x); draws outside the cells count in the total."""
    weights = np.full(len(draws), 1 / len(draws)) if shares is None else shares
    return histogram(draws, bounds, weights) / area(bounds)


def resolution(draws: Array, ends: Sequence[tuple[float, float]]) -> int | None:
    """Return the finest of `CELLS` with `ENOUGH` draws in the cell of a typical draw; None if there is none."""
    for cells in CELLS:
        counts = histogram(draws, edges(ends, cells))
        if counts.sum() and (counts**2).sum() / counts.sum() >= ENOUGH:
            return cells
    return None
