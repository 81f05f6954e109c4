"""Step size and temperature of each method against the step, drawn from the settings of the runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness import Result
from harness.reports import FieldScore, Request
from reports.figures.parts import Array, FieldReport, field_figure, legend_below, record, shown, trajectory

if TYPE_CHECKING:
    from harness import Trajectory

PIXELS = 800
"""Stretches into which a line is divided if there are more steps."""


class Schedules(FieldReport):
    """A figure for each task, protocol, number of chains and budget: h and T at every step, and which draws are kept.

    The trajectory is a function of the runs' settings, and is computed from them, with burn-in and thinning.
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
        size = (8.0, 0.95 * len(paths) + 1.3)
        caption = (
            "Lines: the step size h of each step. Grey: steps at temperature T = 0. Orange, below: the steps "
            "whose draws are kept, paler where only some of them are."
        )
        figure = field_figure(name, score, lambda canvas: _draw(canvas, list(paths.items())), size, caption)
        return Result(records=records, figures=[figure])


def _draw(canvas: Any, lines: Sequence[tuple[str, Trajectory]]) -> None:
    """Draw a strip for each method: h as a line, the steps at T = 0 shaded, the kept ones in a bar below."""
    from matplotlib.colors import ListedColormap
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    same = len({len(path) for _, path in lines}) == 1
    axes = canvas.subplots(len(lines), 1, squeeze=False, sharex=True)[:, 0]
    for ax, (label, path) in zip(axes, lines, strict=True):
        top = float(path.step_size.max())
        unit = 1.0 if same else 100 / len(path)
        ends = (0.5 * unit, (len(path) + 0.5) * unit)
        shades = {"cmap": ListedColormap(np.linspace([1, 1, 1], [0.82, 0.82, 0.82], 64)), "vmin": 0, "vmax": 1}
        ax.imshow(shares(path.temperature == 0)[None], extent=(*ends, 0, 1.25 * top), aspect="auto", **shades)
        bars = {"cmap": ListedColormap(np.linspace([1, 1, 1], [0.757, 0.439, 0.173], 64)), "vmin": 0, "vmax": 1}
        ax.imshow(shares(path.keep)[None], extent=(*ends, -0.13 * top, -0.03 * top), aspect="auto", **bars)
        at, h = outline(path.step_size)
        ax.plot(unit * at, h, color="#1f4e79", linewidth=1)
        ax.set(xlim=ends, ylim=(-0.16 * top, 1.25 * top), ylabel="h")
        hot = path.temperature[path.temperature > 0]
        warm = f"T = {hot.min():g}" if len(hot) and hot.min() == hot.max() else "T = 0"
        warm = f"T from {hot.min():.3g} to {hot.max():.3g}" if len(hot) and hot.min() < hot.max() else warm
        ax.set_title(f"{label}, {warm}" + f", {len(path):,} steps" * (not same), loc="left", fontsize="small")
        ax.xaxis.set_major_formatter("{x:,.0f}")
    axes[-1].set_xlabel("step" if same else "share of the run (%)")
    kept = {
        "step size h": Line2D([], [], color="#1f4e79"),
        "T = 0 (no noise)": Patch(facecolor="0.82"),
        "draws kept (pale: some of the steps)": Patch(facecolor="#c1702c"),
    }
    legend_below(canvas, kept)


def shares(chosen: NDArray[np.bool_]) -> Array:
    """Return the share of the steps that are chosen in each of at most `PIXELS` stretches of the same length."""
    edges = np.linspace(0, len(chosen), min(PIXELS, len(chosen)) + 1).round().astype(int)
    return np.asarray(np.add.reduceat(chosen.astype(np.float64), edges[:-1]) / np.diff(edges))


def outline(values: Array) -> tuple[Array, Array]:
    """Return steps and values of a line that looks the same: the lowest and the highest value of each stretch."""
    if len(values) <= 2 * PIXELS:
        return np.arange(1.0, len(values) + 1), values
    edges = np.linspace(0, len(values), PIXELS + 1).round().astype(int)
    parts = [(start, values[start:stop]) for start, stop in itertools.pairwise(edges.tolist())]
    at = np.array([sorted((start + part.argmin(), start + part.argmax())) for start, part in parts]).ravel()
    at[0], at[-1] = 0, len(values) - 1
    return at + 1.0, values[at]
