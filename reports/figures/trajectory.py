"""Where a chain was and how fast it moved, draw by draw: (theta, r) of a sampler with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from harness import Column, FieldScore, Figure, Request, Result
from reports.figures.parts import Array, FieldReport, Panel, grid, kept_draws, shown, trajectory

SHOWN = 1_500
"""Moves shown of a chain, the last ones that follow each other."""


class Trajectories(FieldReport):
    """The first coordinate of chain 0 against its velocity, for each task, protocol, number of chains and budget.

    Runs keep positions, not momenta. The velocity is r_k = (theta_k - theta_{k-1}) / (L sqrt(h_k)), L the leapfrog
    steps of a proposal and 1 where there is no such setting. For sghmc, whose position moves by v, it is v / sqrt(h),
    of variance 2 T / (2 - alpha) or so at rest; for hmc with a constant step the mean momentum along a proposal, 0
    where it is refused; for a sampler without momentum it is noise of variance 2 T, which shows that there is none.
    Only draws of steps that follow each other are taken.
    """

    name: ClassVar[str] = "trajectory"

    shown = (*shown("figure", "method", seed=""), Column("velocity_variance", "var r", "right", ".3g"))

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        if "task.gradient_noise" not in score.groups[0].settings and not request.tasks:
            return Result()  # pictures of one coordinate of a network tell nothing
        panels, notes = kept_draws(score)
        moves = [(panel, *velocities(panel, request)) for panel in panels]
        notes += [
            f"{p.label}: no two of its draws are of steps that follow each other" for p, x, _ in moves if not len(x)
        ]
        moves = [move for move in moves if len(move[1])]
        records = [p.record(name, moves=len(x), velocity_variance=float(r.var())) for p, x, r in moves]
        return Result(records=records, figures=[_figure(name, score.title, moves)] if moves else [], notes=notes)


def velocities(panel: Panel, request: Request) -> tuple[Array, Array]:
    """Position and velocity (n,) of the first coordinate of chain 0, of its last moves."""
    h = trajectory(panel.group, request).step_size[panel.steps - 1]
    leapfrog = float(panel.group.settings.get("sampler.leapfrog", 1))
    x = panel.draws[:, 0, 0]
    follows = np.diff(panel.steps) == 1
    r = np.diff(x) / (leapfrog * np.sqrt(h[1:]))
    return x[1:][follows][-SHOWN:], r[follows][-SHOWN:]


def _figure(name: str, heading: str, moves: Sequence[tuple[Panel, Array, Array]]) -> Figure:
    columns = min(len(moves), 4)
    size = (max(2.6 * columns + 0.4, 7.2), 2.6 * -(-len(moves) // columns) + 0.6)
    return Figure(name, lambda canvas: _draw(canvas, moves, columns, heading), size, heading)


def _draw(canvas: Any, moves: Sequence[tuple[Panel, Array, Array]], columns: int, heading: str) -> None:
    axes = grid(canvas, len(moves), columns, r"$\theta_1$", "r", ())
    for (panel, x, r), ax in zip(moves, axes, strict=True):
        ax.plot(x, r, color="0.8", linewidth=0.3, zorder=1)
        ax.scatter(x, r, c=np.arange(len(x)), cmap="viridis", s=3, linewidths=0, zorder=2)
        ax.set_title(f"{panel.label}, seed {panel.run.seed}")
    canvas.suptitle(heading, fontsize="medium")
