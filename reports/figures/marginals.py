"""Marginals: histograms of the draws of single runs beside the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from reports.figures import plane
from reports.figures.chains import ChainReport, Coordinate, rows
from reports.figures.parts import Array, Panel, legend_below
from reports.figures.styles import look, method_of

POINTS = 600
BINS = (16, 80)
"""Fewest and most bins; between them the number is 3 times the cube root of the number of draws."""


class Marginals(ChainReport):
    """Histograms of the draws of all chains of single runs, and the target's density along the same coordinate.

    The density is exact if the task has one in one or two dimensions, otherwise from the truth's quantiles if it has
    these, otherwise the normal density with its mean and standard deviation.
    """

    name: ClassVar[str] = "marginals"
    weighs: ClassVar[bool] = True
    note: ClassVar[str] = "Bars: the draws of all chains, in the method's colour. Line: the target."

    def draw(self, canvas: Any, panels: Sequence[Panel], chosen: Sequence[Coordinate], task: Any) -> None:
        axes = rows(canvas, panels, [one.title if one.why else "" for one in chosen], "", sharex="col")
        truth = None if task is None else task.truth()
        targets = [_target(task, truth, one) for one in chosen]
        handle: dict[str, Any] = {}
        for panel, line in zip(panels, axes, strict=True):
            for one, ax, target in zip(chosen, line, targets, strict=True):
                draws = one.draws[panel.label].ravel()
                low, high = _ends(one)
                bins = int(np.clip(3 * len(draws) ** (1 / 3), *BINS))
                counts, edges = np.histogram(draws, np.linspace(low, high, bins + 1), weights=panel.shares)
                total = len(draws) if panel.shares is None else 1.0
                colour = look(method_of(panel.label))["color"]
                ax.stairs(counts / (total * (edges[1] - edges[0])), edges, fill=True, color=colour, alpha=0.55)
                top = 0.0
                if target:
                    (handle[f"target: {target[0]}"],) = ax.plot(*target[1:], color="0.1", linewidth=1.1)
                    top = 2.5 * float(target[2].max())
                ax.set(xlim=(low, high), ylim=(0, min(ax.get_ylim()[1], top) if top else None))
                ax.set_yticks([])
        for ax, one in zip(axes[-1], chosen, strict=True):
            ax.set_xlabel(one.name)
        for line in axes:
            line[0].set_ylabel("density", fontsize="small")
        if handle:
            legend_below(canvas, handle)


def _target(task: Any, truth: Any, one: Coordinate) -> tuple[str, Array, Array] | None:
    """Return how the target is known, and its density (n,) at points (n,); None without a truth."""
    if one.truth is None:
        return None
    mean, sd = one.truth
    x = np.linspace(mean - 5 * sd, mean + 5 * sd, POINTS)
    if hasattr(task, "log_density") and len(truth.mean) <= 2:
        return "exact density", x, integrated(task, truth, one.index, x)
    if truth.quantiles is not None:
        q = truth.quantiles[one.index]
        return "density by its quantiles", (q[1:] + q[:-1]) / 2, 1 / len(q) / np.diff(q)
    return "normal, with its mean and sd", x, np.exp(-(((x - mean) / sd) ** 2) / 2) / (sd * np.sqrt(2 * np.pi))


def integrated(task: Any, truth: Any, index: int, x: Array) -> Array:
    """Return the density of a coordinate of a task in one or two dimensions, with this truth, at x (n,)."""
    if len(truth.mean) == 1:
        return np.asarray(np.exp(task.log_density(x[:, None])))
    other = 1 - index
    y = np.linspace(truth.mean[other] - 6 * truth.sd[other], truth.mean[other] + 6 * truth.sd[other], 401)
    points = np.empty((len(x), len(y), 2))
    points[:, :, index], points[:, :, other] = x[:, None], y
    density = np.exp(plane.log_density(task, points.reshape(-1, 2))).reshape(len(x), len(y))
    return np.asarray(density.sum(axis=1) * (y[1] - y[0]))


def _ends(one: Coordinate) -> tuple[float, float]:
    """Return the ends of the axis: the target within 3.5 sd, and nearly all draws within 8; without a truth, nearly all
    draws.
    """
    draws = np.concatenate([x.ravel() for x in one.draws.values()])
    low, high = np.quantile(draws, [0.002, 0.998]).tolist()
    if one.truth is None:
        margin = 0.05 * (high - low) or 1.0
        return low - margin, high + margin
    mean, sd = one.truth
    low, high = np.quantile(draws, [0.01, 0.99]).tolist()
    return max(min(low, mean - 3.5 * sd), mean - 8 * sd), min(max(high, mean + 3.5 * sd), mean + 8 * sd)
