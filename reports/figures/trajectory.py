"""Position and velocity of a chain, draw by draw: (theta, r) of a sampler with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from harness import Result
from harness.reports import Column, FieldScore, Figure, Request
from reports.figures.parts import Array, FieldReport, Panel, kept_draws, name_panel, panel_figure, shown, trajectory

MOVES = 1_500
"""Most moves of a chain that are looked at: the last ones between draws of consecutive steps."""
SHOWN = 400
"""Most of these that are drawn: more hide each other."""


class Trajectories(FieldReport):
    """The first coordinate of chain 0 against its velocity, for each task, protocol, number of chains and budget.

    Runs keep positions, not momenta. The velocity is r_k = (theta_k - theta_{k-1}) / (L sqrt(h_k)), where L is the
    number of leapfrog steps of a proposal, or 1 without this setting. For sghmc, whose position moves by v, it is
    v / sqrt(h), with a stationary variance of about 2 T / (2 - alpha); for hmc with a constant step it is the mean
    momentum along a proposal, 0 if that is rejected; for a sampler without momentum it is noise of variance 2 T, which
    shows that there is none. Only draws of consecutive steps are used.
    """

    name: ClassVar[str] = "trajectory"

    shown = (*shown("figure", "method", seed=""), Column("velocity_variance", "var r", "right", ".3g"))

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        if not {"task.noise", "task.gradient_noise"} & score.groups[0].settings.keys() and not request.tasks:
            return Result()  # pictures of one coordinate of a network show nothing
        panels, notes = kept_draws(score)
        moves = [(panel, *velocities(panel, request)) for panel in panels]
        notes += [
            f"{p.label}: no two of its draws are of steps that follow each other" for p, x, _ in moves if not len(x)
        ]
        moves = [move for move in moves if len(move[1])]
        records = [p.record(name, moves=len(x), velocity_variance=float(r.var())) for p, x, r in moves]
        return Result(records=records, figures=[_figure(name, score, moves)] if moves else [], notes=notes)


def velocities(panel: Panel, request: Request) -> tuple[Array, Array]:
    """Return position and velocity (n,) of the first coordinate of chain 0, for its last moves."""
    h = trajectory(panel.group, request).step_size[panel.steps - 1]
    leapfrog = float(panel.group.settings.get("sampler.leapfrog", 1))
    x = panel.draws[:, 0, 0]
    follows = np.diff(panel.steps) == 1
    r = np.diff(x) / (leapfrog * np.sqrt(h[1:]))
    return x[1:][follows][-MOVES:], r[follows][-MOVES:]


def _figure(name: str, score: FieldScore, moves: Sequence[tuple[Panel, Array, Array]]) -> Figure:
    caption = (
        f"Of chain 0, at most the last {SHOWN:,} moves: position against velocity r, the change of theta_1 in a step "
        "over L sqrt(h), with the L leapfrog steps of a proposal, else 1. Without momentum r is noise. Its variance "
        f"is that of the last {MOVES:,} moves."
    )
    return panel_figure(
        name, score, len(moves), lambda canvas, axes: _draw(canvas, axes, moves), caption, panel=(2.6, 2.6),
        margin=(1.0, 0.8), labels=(r"position $\theta_1$", r"velocity $r = \Delta\theta_1 / (L \sqrt{h})$"), shared=(),
    )  # fmt: skip


def _draw(canvas: Any, axes: Sequence[Any], moves: Sequence[tuple[Panel, Array, Array]]) -> None:
    for (panel, all_x, all_r), ax in zip(moves, axes, strict=True):
        x, r = all_x[-SHOWN:], all_r[-SHOWN:]
        ax.plot(x, r, color="0.8", linewidth=0.3, zorder=1)
        order = np.linspace(0, 100, len(x))
        points = ax.scatter(x, r, c=order, cmap="viridis", vmin=0, vmax=100, s=3, linewidths=0, zorder=2)
        name_panel(ax, panel.title, f"var r = {all_r.var():.3g}")
    canvas.colorbar(points, ax=axes, label="moves shown, first to last (%)", shrink=0.9, pad=0.02)
