"""Step size and temperature of each method against the step, drawn from the settings that runs had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness.reporting.report import Column, Figure, Report, Request, Result, Table
from harness.reporting.scoring import Group, labels, load_fields, title
from reports.figures.draws import made, task_of

if TYPE_CHECKING:
    from harness.contracts.schedule import Trajectory
    from harness.results.store import Store

POINTS = 20_000
"""Steps drawn at most."""


class Schedules(Report):
    """A figure for each task, protocol, number of chains and budget: h and T at every step, and which draws are kept.

    The trajectory is made anew from the settings of the runs, burn-in and thinning included: it is a function of them.
    """

    name: ClassVar[str] = "schedules"
    summary: ClassVar[str] = "step size and temperature of each method against the step"

    def build(self, store: Store, request: Request) -> Result:
        figures, records = [], []
        for field in load_fields(store, request):
            names = labels(field)
            lines = [(names[group.key], trajectory(group, request)) for group in field]
            figures.append(_figure(field, lines))
            records += [
                _record(figures[-1].name, group, *line) for group, line in zip(field, lines, strict=True)
            ]  # fmt: skip
        columns = [Column("figure", "figure"), Column("method", "method"), Column("schedule", "schedule")]
        columns += [Column(k, k.replace("_", " "), "right", ".4g") for k in ("first_h", "last_h", "total_h", "kept")]
        return Result([Table("Schedules", columns, records)] if records else [], records, figures)


def trajectory(group: Group, request: Request) -> Trajectory:
    """What a group's runs went along."""
    schedule = made(request, "schedules", str(group.settings["schedule"]), "schedule", group)
    whole: Trajectory = schedule.trajectory(group.steps, task_of(group, request).steps_per_epoch())
    return whole.with_burn_in(int(group.settings["run.burn_in"]), int(group.settings["run.thin"]))


def _record(figure: str, group: Group, label: str, path: Trajectory) -> dict[str, Any]:
    return {
        "figure": figure, "task": group.task, "task_version": group.task_version, "protocol": group.protocol,
        "method": label, "chains": group.chains, "budget": group.budget, "schedule": group.settings["schedule"],
        "steps": len(path), "first_h": float(path.step_size[0]), "last_h": float(path.step_size[-1]),
        "total_h": float(path.step_size.sum()), "kept": int(path.keep.sum()),
        "run_keys": [run.key for run in group.done],
    }  # fmt: skip


def _figure(field: Sequence[Group], lines: Sequence[tuple[str, Trajectory]]) -> Figure:
    first = field[0]
    return Figure(
        name=f"schedules-{first.task}-{first.protocol}-{first.budget.replace('=', '-')}-{first.chains}x",
        draw=lambda canvas: _draw(canvas, lines, title(field)),
        size=(8.0, 1.2 * len(lines) + 0.9),
        caption=title(field),
    )


def _draw(canvas: Any, lines: Sequence[tuple[str, Trajectory]], heading: str) -> None:
    """A strip a method: h as a line, the steps at T = 0 shaded, the kept ones marked below."""
    axes = canvas.subplots(len(lines), 1, squeeze=False)[:, 0]
    for ax, (label, path) in zip(axes, lines, strict=True):
        at = np.unique(np.linspace(0, len(path) - 1, POINTS).round().astype(int))
        floor, top = 0.0, float(path.step_size.max())
        ax.fill_between(
            at + 1, floor, 1.25 * top, where=path.temperature[at] == 0, color="0.88", linewidth=0, step="mid"
        )
        ax.plot(at + 1, path.step_size[at], color="#1f4e79", linewidth=1)
        kept = np.flatnonzero(path.keep)
        kept = kept[np.unique(np.linspace(0, len(kept) - 1, POINTS).round().astype(int))]
        ax.vlines(kept + 1, -0.12 * top, -0.04 * top, color="#c1702c", linewidth=0.8)
        ax.set(xlim=(0.5, len(path) + 0.5), ylim=(-0.16 * top, 1.25 * top), ylabel="h")
        hot = path.temperature[path.temperature > 0]
        temperature = f"T = {hot.max():g}" if len(hot) else "T = 0"
        ax.set_title(f"{label}, {temperature}", loc="left", fontsize="small")
    axes[-1].set_xlabel("step (grey: T = 0; orange: kept)")
    canvas.suptitle(heading, fontsize="medium")
