"""How much depends on the step size: the trials of `bench tune`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import BenchError, Result, UsageError
from harness.reports import (
    Column,
    Figure,
    Group,
    Report,
    Request,
    Table,
    load_groups,
    metric_estimate,
    number,
    step_limit,
)
from harness.tasks import ALL_ROWS_SEED
from reports.figures.parts import Array, record, settings_of
from reports.figures.styles import FAINT, STROKES, look

if TYPE_CHECKING:
    from harness.reports import Store

OBJECTIVES = ("nll", "joint_error")
"""What `bench tune` minimises: the first that a task has."""
STEP = "schedule.step_size"
GOOD = {"joint_error": 2.0}
OTHERWISE = 1.1
"""A trial is good if its objective is at most so many times that of the best one; 1.1 for other metrics."""
BIN = 3.0
"""The line goes through the best trial of each interval of step sizes whose ends differ by this factor."""
DRAWN = 8
"""Methods with a line: those of the best trials."""
PANEL, ABOVE, ROW = 3.4, 2.8, 0.14
"""Inches: the width of a panel, the height of its lines, and that of the row of a method."""
CAPTION = (
    "Above: trials of bench tune, by the step size (of a schedule, its first) and the mean over the tuning seeds of "
    "the task's objective, at equal budgets; other settings vary too where a method has any that are tuned. Lines: "
    "through the best trial in each interval of a factor {bin:g}{best}. Below, a row for each method: dots are its "
    "trials, crosses those of which a run diverged, and the bar is the good range, from the least to the greatest step "
    "size of a trial within {factors} of the method's best, which is marked and whose value is on the right; an arrow "
    "where no trial beyond it is worse."
)


class Sensitivity(Report):
    """A panel for each task (protocol, chains, budget) that `bench tune` has run: the objective (the NLL on held-out
    data where the task predicts, else, or if a search minimised an error against the truth, the joint error) or
    `request.metric` against the step size.

    The good range is from the least to the greatest step size of a trial whose joint error is at most twice that of the
    method's best trial (other metrics: 1.1 times). The trials are where the search looked, which is mostly near the
    best: a range is at least that wide. In units of the stability limit, where it is known: that of the best trial's
    settings over the task's curvature. All trials are on the seeds of tuning, which no other report shows.
    """

    name: ClassVar[str] = "sensitivity"

    def build(self, store: Store, request: Request) -> Result:
        groups = load_groups(store, request, trials=True)
        without = sorted({f"{group.method} on {group.task}" for group in groups if STEP not in group.settings})
        notes = [f"left out, because their schedule has no step_size: {', '.join(without)}"] if without else []
        panels = _panels(groups, request)
        if not panels:
            none = ["no trials; for some: bench tune --sampler sgld,psgld --task mixture25"]
            return Result(notes=notes or none)
        records = [_record(panel, line) for panel in panels for line in panel.lines]
        methods = _order(panels)
        columns = min(len(panels), 3)
        size = (max(columns * PANEL, 6.4), -(-len(panels) // columns) * (ABOVE + ROW * len(methods) + 0.9))
        factors = " or ".join(f"a factor {f:g}" for f in sorted({_factor(panel.metric) for panel in panels}))
        best = f", of the {DRAWN} methods with the best trials" if len(methods) > DRAWN else ""
        caption = CAPTION.format(bin=BIN, factors=factors, best=best)
        figure = Figure("sensitivity", lambda canvas: _draw(canvas, panels, columns, methods), size, caption)
        return Result([_table(panel, records) for panel in panels], records, [figure], notes)


@dataclass(frozen=True, eq=False)
class Trials:
    """The trials of a method: step sizes and objectives (n,), ascending by step size; an objective may be infinite."""

    method: str
    steps: Array
    values: Array
    best: Group
    limit: float | None
    others: tuple[str, ...]

    @property
    def least(self) -> float:
        """The best objective."""
        return float(self.values.min())

    def good(self, factor: float) -> tuple[float, float, bool, bool]:
        """The ends of the good range, and whether it is open on the left and on the right: no trial beyond."""
        inside = self.steps[self.values <= self.least + (factor - 1) * abs(self.least)]
        low, high = float(inside.min()), float(inside.max())
        return low, high, bool(self.steps[0] == low), bool(self.steps[-1] == high)

    def envelope(self) -> tuple[list[float], list[float]]:
        """The best trial of each interval of a factor `BIN`."""
        bins = np.floor(np.log(self.steps) / np.log(BIN)).astype(int)
        best = [int(np.flatnonzero(bins == k)[self.values[bins == k].argmin()]) for k in np.unique(bins)]
        finite = [trial for trial in best if np.isfinite(self.values[trial])]
        return self.steps[finite].tolist(), self.values[finite].tolist()


@dataclass(frozen=True, eq=False)
class TrialPanel:
    """A task under a protocol, with a number of chains and a budget."""

    title: str
    metric: str
    unit: str
    lines: list[Trials]

    @property
    def factor(self) -> float:
        """Of the good range."""
        return _factor(self.metric)


def _factor(metric: str) -> float:
    return GOOD.get(metric, OTHERWISE)


def _panels(groups: Sequence[Group], request: Request) -> list[TrialPanel]:
    fields: dict[tuple[Any, ...], list[Group]] = {}
    for group in groups:
        settings = json.dumps(settings_of(group, "task."), sort_keys=True)
        field_key = (group.task, group.task_version, group.protocol, group.chains, group.budget, settings)
        fields.setdefault(field_key, []).append(group)
    panels = []
    for field_key, field in sorted(fields.items()):
        known = {name: value for group in field for name, value in group.metrics().items()}
        all_rows = any(run.seed >= ALL_ROWS_SEED for group in field for run in group.runs)
        objectives = OBJECTIVES[all_rows:]  # trials on all rows were tested on what others are not judged by
        metric = request.metric or next((name for name in objectives if name in known), None)
        if metric not in known:
            continue
        if known[metric].direction != "min":
            raise UsageError(f"sensitivity shows metrics whose lowest value is best, not {metric}")
        methods = {method: [g for g in field if g.method == method] for method in sorted({g.method for g in field})}
        lines = [line for trials in methods.values() if (line := _trials(trials, metric, request)) is not None]
        lines.sort(key=lambda line: line.least)
        variant = "" if len([p for p in fields if p[:-1] == field_key[:-1]]) == 1 else f" {field_key[-1]}"
        title = f"{field_key[0]}@{field_key[2]}{variant}, {field_key[4]} budget, {field_key[3]} chains"
        if lines:
            panels.append(TrialPanel(title, metric, known[metric].unit, lines))
    if groups and request.metric and not panels:
        raise UsageError(f"no trial has the metric {request.metric!r}")
    return panels


def _trials(groups: Sequence[Group], metric: str, request: Request) -> Trials | None:
    points = sorted(
        ((float(group.settings[STEP]), _objective(group, metric), group) for group in groups if STEP in group.settings),
        key=lambda point: point[:2],
    )
    if not points or not np.isfinite(min(value for _, value, _ in points)):
        return None
    best = min(points, key=lambda point: point[1])[2]
    varied = {n for _, _, g in points for n in g.settings if g.settings[n] != best.settings.get(n)} - {STEP}
    return Trials(
        best.method, np.array([step for step, _, _ in points]), np.array([value for _, value, _ in points]), best,
        _limit(best, request), tuple(sorted(name for name in varied if "." in name)),
    )  # fmt: skip


def _objective(group: Group, metric: str) -> float:
    """The mean over seeds; infinite where a run of the trial has no value."""
    estimate = metric_estimate(group, metric)
    failed = len(group.done) < len(group.runs) or estimate is None or estimate.mean is None
    return np.inf if failed else float(estimate.mean)  # type: ignore[union-attr, arg-type]


def _limit(group: Group, request: Request) -> float | None:
    """The stability limit of a group's step size; None where it is not known, or a plugin is not installed."""
    if request.registry is None:
        return None
    try:
        offers = [
            request.registry.find("samplers", str(group.settings["sampler"])),
            request.registry.find("tasks", group.task),
        ]
        return step_limit(offers[0], settings_of(group, "sampler."), offers[1], settings_of(group, "task."))
    except BenchError:
        return None


def _record(panel: TrialPanel, line: Trials) -> dict[str, Any]:
    low, high, open_low, open_high = line.good(panel.factor)
    step = float(line.best.settings[STEP])
    relative = {f"{name}_of_limit": value / line.limit if line.limit else None
                for name, value in (("best_step", step), ("good_low", low), ("good_high", high))}  # fmt: skip
    return record(
        "sensitivity", line.best, panel=panel.title, metric=panel.metric, trials=len(line.steps),
        diverged_trials=int(np.isinf(line.values).sum()), best=line.least, best_step=step, good_factor=panel.factor,
        good_low=low, good_high=high, good_low_open=open_low, good_high_open=open_high, stability_limit=line.limit,
        **relative, also_tuned=list(line.others), run_keys=[run.key for run in line.best.runs],
    )  # fmt: skip


def _table(panel: TrialPanel, records: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        {
            **record, "also": ", ".join(record["also_tuned"]),
            "good": _range(record, ""), "good_limit": _range(record, "_of_limit"),
            "width": record["good_high"] / record["good_low"],
        }
        for record in records
        if record["panel"] == panel.title
    ]  # fmt: skip
    columns = [
        Column("method", "method"), Column("best", f"best {panel.metric.replace('_', ' ')}", "right", ".3g"),
        Column("best_step", "at step size", "right", ".3g"), Column("good", "good range", "right"),
        Column("width", "high / low", "right", ".3g"),
        Column("best_step_of_limit", "best / limit", "right", ".2g"),
        Column("good_limit", "good range / limit", "right"), Column("trials", "trials", "right"),
        Column("diverged_trials", "diverged trials", "right"), Column("also", "also varied"),
    ]  # fmt: skip
    notes = [
        f"good range: of trials within a factor {panel.factor:g} of the method's best; <, >: no trial beyond",
        "of the limit: over the stability limit of the best trial's settings, where it is known",
        "the trials are on the seeds of tuning; the best of many flatters",
    ]
    return Table(panel.title, columns, rows, notes)


def _range(record: Mapping[str, Any], suffix: str) -> str:
    low, high = record[f"good_low{suffix}"], record[f"good_high{suffix}"]
    if low is None:
        return "-"
    ends = ["<" if record["good_low_open"] else "", ">" if record["good_high_open"] else ""]
    return f"{ends[0]}{number(low)} to {ends[1]}{number(high)}"


def _order(panels: Sequence[TrialPanel]) -> list[str]:
    """The methods of all panels, by the mean place of their best trials; a panel without the method is a last place."""
    places = [{line.method: rank for rank, line in enumerate(panel.lines)} for panel in panels]
    methods = dict.fromkeys(method for order in places for method in order)
    return sorted(methods, key=lambda method: sum(order.get(method, len(methods)) for order in places))


def _looks(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """How to draw the methods that have a line: as everywhere, and those of one colour in different strokes."""
    styles: dict[str, dict[str, Any]] = {}
    for method in methods:
        style = look(method)
        before = sum(other["color"] == style["color"] for other in styles.values())
        styles[method] = {**style, "linestyle": STROKES[before % len(STROKES)]}
    return styles


def _draw(canvas: Any, panels: Sequence[TrialPanel], columns: int, methods: Sequence[str]) -> None:
    rows = -(-len(panels) // columns)
    axes = canvas.subplots(2 * rows, columns, squeeze=False, height_ratios=[ABOVE, ROW * len(methods)] * rows)
    looks = _looks(methods[:DRAWN])
    for k, panel in enumerate(panels):
        row, column = divmod(k, columns)
        above, below = axes[2 * row, column], axes[2 * row + 1, column]
        below.sharex(above)
        _draw_lines(above, panel, looks)
        _draw_rows(below, panel, methods, looks, named=column == 0)
        above.set_title(panel.title.replace(", ", "\n", 1), fontsize="small")
    for k in range(len(panels), rows * columns):
        for ax in (axes[2 * (k // columns), k % columns], axes[2 * (k // columns) + 1, k % columns]):
            ax.set_axis_off()


def _draw_lines(ax: Any, panel: TrialPanel, looks: Mapping[str, Mapping[str, Any]]) -> None:
    """The objective of each trial of the methods with a line."""
    drawn = [line for line in panel.lines if line.method in looks] or panel.lines
    finite = np.concatenate([line.values[np.isfinite(line.values)] for line in drawn])
    least, greatest = float(finite.min()), float(finite.max())
    top = min(greatest + abs(greatest) / 2, max(30.0, 30 * least))
    steps = np.concatenate([line.steps for line in panel.lines])
    ax.set(xscale="log", yscale="log" if least > 0 else "symlog")
    ax.set(ylim=(least - 0.3 * abs(least), top), xlim=(steps.min() / 1.5, steps.max() * 1.5))
    for line in drawn:
        style = looks.get(line.method, {"color": FAINT})
        ax.plot(*line.envelope(), linewidth=1.3, markersize=4, zorder=3, **style)
        ax.plot(line.steps, line.values, ".", color=style["color"], alpha=0.4, markersize=3)
    words = panel.metric.replace("_", " ")
    ax.set_ylabel(f"{words} ({panel.unit})" if panel.unit != "1" else words)
    ax.tick_params(labelbottom=False)
    _grid(ax)


def _draw_rows(
    ax: Any, panel: TrialPanel, methods: Sequence[str], looks: Mapping[str, Mapping[str, Any]], *, named: bool
) -> None:
    """A row for each method: its trials, those that diverged, the good range, the best step size and its value."""
    places = [methods.index(line.method) for line in panel.lines]
    steps = np.concatenate([line.steps for line in panel.lines])
    rows = np.repeat(places, [len(line.steps) for line in panel.lines])
    lost = np.isinf(np.concatenate([line.values for line in panel.lines]))
    ax.plot(steps[~lost], rows[~lost], ".", color=FAINT, markersize=2.5, zorder=2)
    ax.plot(steps[lost], rows[lost], "x", color=FAINT, markersize=3, zorder=2)
    for line, row in zip(panel.lines, places, strict=True):
        style = looks.get(line.method, {"color": "#777777", "marker": "o"})
        colour = style["color"]
        low, high, open_low, open_high = line.good(panel.factor)
        ax.plot([low, high], [row, row], color=colour, linewidth=2, solid_capstyle="butt", zorder=3)
        for end, is_open, arrow in ((low, open_low, "<"), (high, open_high, ">")):
            if is_open:
                ax.plot([end], [row], marker=arrow, color=colour, markersize=3.5, zorder=3)
        ax.plot(
            [float(line.best.settings[STEP])], [row], color=colour, marker=style["marker"], markersize=4.5,
            markeredgecolor="white", markeredgewidth=0.6, zorder=4,
        )  # fmt: skip
        ax.annotate(
            number(line.least), (1, row), xytext=(3, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="center", fontsize="x-small",
        )  # fmt: skip
    ax.set_yticks(range(len(methods)), methods, fontsize="x-small")
    for label, method in zip(ax.get_yticklabels(), methods, strict=False):
        label.set_color(looks.get(method, {"color": "black"})["color"])
    ax.tick_params(axis="y", length=0, labelleft=named)
    ax.set(ylim=(len(methods) - 0.4, -0.6), xlabel="step size h")
    _grid(ax)


def _grid(ax: Any) -> None:
    from matplotlib.ticker import NullLocator

    ax.xaxis.set_minor_locator(NullLocator())  # hundreds of ticks
    ax.grid(visible=True, color="#ededed", linewidth=0.6)
