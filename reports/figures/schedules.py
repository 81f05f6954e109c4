"""Step size and temperature of each method against the step, drawn from the settings that runs had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import FieldScore, Figure, Request, Result
from reports.figures.parts import FieldReport, record, shown, trajectory

if TYPE_CHECKING:
    from harness import Trajectory

POINTS = 20_000
"""Steps drawn at most."""


class Schedules(FieldReport):
    """A figure for each task, protocol, number of chains and budget: h and T at every step, and which draws are kept.

    The trajectory is computed from the settings of the runs, burn-in and thinning included: it is a function of them.
    """

    name: ClassVar[str] = "schedules"

    heading = "Schedules"
    shown = shown("figure", "method", "schedule", first_h=".4g", last_h=".4g", total_h=".4g", kept=".4g")

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        paths = {score.labels[group.key]: trajectory(group, request) for group in score.groups}
        records = [
            record(
                name, group, method=label, schedule=group.settings["schedule"], steps=len(path),
                first_h=float(path.step_size[0]), last_h=float(path.step_size[-1]),
                total_h=float(path.step_size.sum()), kept=int(path.keep.sum()),
                run_keys=[run.key for run in group.done],
            )
            for group, (label, path) in zip(score.groups, paths.items(), strict=True)
        ]  # fmt: skip
        size = (8.0, 1.2 * len(paths) + 0.9)
        figure = Figure(name, lambda canvas: _draw(canvas, list(paths.items()), score.title), size, score.title)
        return Result(records=records, figures=[figure])


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
