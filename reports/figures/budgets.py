"""The joint error of each method against the data passes of its runs, one panel a task, one point a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.reports import Figure
from reports.figures.parts import legend_below, legend_height
from reports.figures.styles import COLOURS, FAINT, MARKERS

WIDTH, HEIGHT = 6.75, 2.3
"""Inches of the figure, and of a row of two panels."""
NOTE = "hollow: at the settings of a shorter budget; grey: the other methods; a line ends where a row has no rank"


@dataclass(frozen=True)
class BudgetPoint:
    """A row of a leaderboard: the data passes of its budget, its joint error, and whether it was tuned there."""

    passes: float
    error: float
    tuned_here: bool


Lines = Mapping[str, Mapping[str, Sequence[BudgetPoint]]]
"""By task and method, in the order of the passes."""


def figure(name: str, lines: Lines) -> Figure:
    """Return the figure of one line or more. Methods with the most points anywhere are named, the others are grey."""
    most = max(len(points) for of_task in lines.values() for points in of_task.values())
    named = sorted({m for of_task in lines.values() for m, points in of_task.items() if len(points) == most})
    rows = -(-len(lines) // 2)
    size = WIDTH, HEIGHT * rows + legend_height(named, WIDTH)
    return Figure(name, lambda canvas: _draw(canvas, lines, named, rows), size)


def _draw(canvas: Any, lines: Lines, named: Sequence[str], rows: int) -> None:
    panels = canvas.subplots(rows, min(2, len(lines)), squeeze=False).flat
    styles = {
        method: {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)]}
        for k, method in enumerate(named)
    }
    handles: dict[str, Any] = {}
    for (task, of_task), ax in zip(lines.items(), panels, strict=False):
        for method, points in sorted(of_task.items(), key=lambda pair: pair[0] in named):
            passes, errors = [one.passes for one in points], [one.error for one in points]
            if method not in named:
                ax.plot(passes, errors, color=FAINT, linewidth=0.8)
                continue
            style = styles[method]
            (handles[method],) = ax.plot(passes, errors, **style, linewidth=1.2, markersize=4)
            later = [one for one in points if not one.tuned_here]
            ax.plot([one.passes for one in later], [one.error for one in later], **style | {"linestyle": ""},
                    markerfacecolor="white", markersize=4, zorder=3)  # fmt: skip
        ax.set(xscale="log", yscale="log", title=task, xlabel="data passes", ylabel="joint error")
        budgets = sorted({one.passes for points in of_task.values() for one in points})
        ax.set_xticks(budgets, [f"{passes:,.0f}" for passes in budgets])
        ax.set_xticks([], minor=True)
    for ax in canvas.axes[len(lines) :]:
        ax.set_visible(False)
    legend_below(canvas, {method: handles[method] for method in named}, NOTE)
