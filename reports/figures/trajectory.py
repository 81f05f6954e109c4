"""Where a chain was and how fast it moved, draw by draw: (theta, r) of a sampler with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.reporting.report import Column, Figure, Report, Request, Result, Table
from harness.reporting.scoring import Group, load_fields, title
from reports.figures.draws import Panel, kept_draws
from reports.figures.schedules import trajectory

if TYPE_CHECKING:
    from harness.results.store import Store

Array = NDArray[np.float64]

SHOWN = 1_500
"""Moves shown of a chain, the last ones that follow each other."""


class Trajectories(Report):
    """The first coordinate of chain 0 against its velocity, for each task, protocol, number of chains and budget.

    Runs keep positions, not momenta. The velocity is r_k = (theta_k - theta_{k-1}) / (L sqrt(h_k)), L the leapfrog
    steps of a proposal and 1 where there is no such setting. For sghmc, whose position moves by v, it is v / sqrt(h),
    of variance 2 T / (2 - alpha) or so at rest; for hmc with a constant step the mean momentum along a proposal, 0
    where it is refused; for a sampler without momentum it is noise of variance 2 T, which shows that there is none.
    Only draws of steps that follow each other are taken.
    """

    name: ClassVar[str] = "trajectory"
    summary: ClassVar[str] = "position and velocity of a chain, draw by draw"

    def build(self, store: Store, request: Request) -> Result:
        figures: list[Figure] = []
        records: list[dict[str, Any]] = []
        notes: list[str] = []
        for field in load_fields(store, request):
            if "task.gradient_noise" not in field[0].settings and not request.tasks:
                continue  # pictures of one coordinate of a network tell nothing
            panels, missing = kept_draws(store, field)
            notes += missing
            moves = [(panel, *velocities(panel, request)) for panel in panels]
            notes += [
                f"{p.label}: no two of its draws are of steps that follow each other" for p, x, _ in moves if not len(x)
            ]
            shown = [move for move in moves if len(move[1])]
            if shown:
                figures.append(_figure(field, shown))
                records += [_record(figures[-1].name, *move) for move in shown]
        columns = [Column("figure", "figure"), Column("method", "method"), Column("seed", "seed", "right")]
        columns.append(Column("velocity_variance", "var r", "right", ".3g"))
        return Result([Table("Panels", columns, records)] if records else [], records, figures, notes)


def velocities(panel: Panel, request: Request) -> tuple[Array, Array]:
    """Position and velocity (n,) of the first coordinate of chain 0, of its last moves."""
    h = trajectory(panel.group, request).step_size[panel.steps - 1]
    leapfrog = float(panel.group.settings.get("sampler.leapfrog", 1))
    x = panel.draws[:, 0, 0]
    follows = np.diff(panel.steps) == 1
    r = np.diff(x) / (leapfrog * np.sqrt(h[1:]))
    return x[1:][follows][-SHOWN:], r[follows][-SHOWN:]


def _record(figure: str, panel: Panel, x: Array, r: Array) -> dict[str, Any]:
    group = panel.group
    return {
        "figure": figure, "task": group.task, "task_version": group.task_version, "protocol": group.protocol,
        "method": panel.label, "chains": group.chains, "budget": group.budget, "steps": group.steps,
        "seed": panel.run.seed, "moves": len(x), "velocity_variance": float(r.var()), "run_keys": [panel.run.key],
    }  # fmt: skip


def _figure(field: Sequence[Group], moves: Sequence[tuple[Panel, Array, Array]]) -> Figure:
    first = field[0]
    columns = min(len(moves), 4)
    return Figure(
        name=f"trajectory-{first.task}-{first.protocol}-{first.budget.replace('=', '-')}-{first.chains}x",
        draw=lambda canvas: _draw(canvas, moves, columns, title(field)),
        size=(max(2.6 * columns + 0.4, 7.2), 2.6 * -(-len(moves) // columns) + 0.6),
        caption=title(field),
    )


def _draw(canvas: Any, moves: Sequence[tuple[Panel, Array, Array]], columns: int, heading: str) -> None:
    axes = canvas.subplots(-(-len(moves) // columns), columns, squeeze=False)
    for (panel, x, r), ax in zip(moves, axes.flat, strict=False):
        ax.plot(x, r, color="0.8", linewidth=0.3, zorder=1)
        ax.scatter(x, r, c=np.arange(len(x)), cmap="viridis", s=3, linewidths=0, zorder=2)
        ax.set_title(f"{panel.label}, seed {panel.run.seed}")
    for ax in axes.flat[len(moves) :]:
        ax.set_axis_off()
    for i, ax in enumerate(axes.flat[: len(moves)]):
        if i + columns >= len(moves):
            ax.set_xlabel(r"$\theta_1$")
    for ax in axes[:, 0]:
        ax.set_ylabel("r")
    canvas.suptitle(heading, fontsize="medium")
