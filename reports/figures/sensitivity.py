"""How much depends on the step size: the trials of `bench tune`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import (
    BenchError,
    Column,
    Figure,
    Group,
    Report,
    Request,
    Result,
    Table,
    UsageError,
    load_groups,
    metric_estimate,
    number,
    step_limit,
)
from reports.figures.parts import Array, legend_below, legend_height, record, settings_of
from reports.figures.styles import FAINT, look

if TYPE_CHECKING:
    from harness import Store

OBJECTIVES = ("joint_error", "nll")
"""What `bench tune` minimises."""
STEP = "schedule.step_size"
GOOD = {"joint_error": 2.0}
OTHERWISE = 1.1
"""A trial is good if its objective is at most so many times that of the best one; 1.1 for other metrics."""
BIN = 3.0
"""The line goes through the best trial of each interval of step sizes whose ends differ by this factor."""
NAMED = 8
PANEL = 3.4
CAPTION = (
    "Points: trials of bench tune, by the step size (of a schedule, its first) and the mean over the tuning seeds of "
    "the task's objective, at equal budgets; other settings vary too where a method has any that are tuned. Lines: "
    "through the best trial in each interval of a factor {bin:g}. Crosses at the top: trials of which a run diverged. "
    "Bars below: the good range, from the least to the greatest step size of a trial within {factors} of the method's "
    "best, which is marked; an arrow where no trial beyond it is worse. {grey}"
)


class Sensitivity(Report):
    """A panel for each task (protocol, chains, budget) that `bench tune` has run: the objective, the joint error or for
    classifiers the NLL on held-out training data, or `request.metric`, against the step size, a line a method.

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
        names = _named(panels)
        columns = min(len(panels), 3)
        size = (
            max(columns * PANEL, 6.4),
            -(-len(panels) // columns) * 3.5 + legend_height(names, columns * PANEL) + 0.1,
        )
        factors = " or ".join(f"a factor {f:g}" for f in sorted({_factor(panel.metric) for panel in panels}))
        grey = f"In colour: the {NAMED} methods of the best trials." if len(names) > NAMED + 1 else ""
        caption = CAPTION.format(bin=BIN, factors=factors, grey=grey).strip()
        figure = Figure("sensitivity", lambda canvas: _draw(canvas, panels, columns, names), size, caption)
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
        places = [int(np.flatnonzero(bins == k)[self.values[bins == k].argmin()]) for k in np.unique(bins)]
        places = [place for place in places if np.isfinite(self.values[place])]
        return self.steps[places].tolist(), self.values[places].tolist()


@dataclass(frozen=True, eq=False)
class Panel:
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


def _panels(groups: Sequence[Group], request: Request) -> list[Panel]:
    fields: dict[tuple[Any, ...], list[Group]] = {}
    for group in groups:
        settings = json.dumps(settings_of(group, "task."), sort_keys=True)
        place = (group.task, group.task_version, group.protocol, group.chains, group.budget, settings)
        fields.setdefault(place, []).append(group)
    found = []
    for place, field in sorted(fields.items()):
        known = {name: value for group in field for name, value in group.metrics().items()}
        metric = request.metric or next((name for name in OBJECTIVES if name in known), None)
        if metric not in known:
            continue
        if known[metric].direction != "min":
            raise UsageError(f"sensitivity shows metrics whose lowest value is best, not {metric}")
        methods = {method: [g for g in field if g.method == method] for method in sorted({g.method for g in field})}
        lines = [line for own in methods.values() if (line := _trials(own, metric, request)) is not None]
        lines.sort(key=lambda line: line.least)
        variant = "" if len([p for p in fields if p[:-1] == place[:-1]]) == 1 else f" {place[-1]}"
        title = f"{place[0]}@{place[2]}{variant}, {place[4]} budget, {place[3]} chains"
        if lines:
            found.append(Panel(title, metric, known[metric].unit, lines))
    if groups and request.metric and not found:
        raise UsageError(f"no trial has the metric {request.metric!r}")
    return found


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


def _record(panel: Panel, line: Trials) -> dict[str, Any]:
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


def _table(panel: Panel, records: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        {
            **own, "also": ", ".join(own["also_tuned"]),
            "good": _range(own, ""), "good_limit": _range(own, "_of_limit"),
            "width": own["good_high"] / own["good_low"],
        }
        for own in records
        if own["panel"] == panel.title
    ]  # fmt: skip
    columns = [
        Column("method", "method"), Column("best", f"best {panel.metric.replace('_', ' ')}", "right", ".3g"),
        Column("best_step", "at step size", "right", ".3g"), Column("good", "good range", "right"),
        Column("width", "high / low", "right", ".3g"),
        Column("best_step_of_limit", "best, of the limit", "right", ".2g"),
        Column("good_limit", "good range, of the limit", "right"), Column("trials", "trials", "right"),
        Column("diverged_trials", "diverged trials", "right"), Column("also", "also varied"),
    ]  # fmt: skip
    notes = [
        f"good range: of trials within a factor {panel.factor:g} of the method's best; <, >: no trial beyond",
        "of the limit: over the stability limit of the best trial's settings, where it is known",
        "the trials are on the seeds of tuning; the best of many flatters",
    ]
    return Table(panel.title, columns, rows, notes)


def _range(own: Mapping[str, Any], suffix: str) -> str:
    low, high = own[f"good_low{suffix}"], own[f"good_high{suffix}"]
    if low is None:
        return "-"
    ends = ["<" if own["good_low_open"] else "", ">" if own["good_high_open"] else ""]
    return f"{ends[0]}{number(low)} to {ends[1]}{number(high)}"


def _named(panels: Sequence[Panel]) -> dict[str, Any]:
    """What the legend names: all methods of a few, else those with the best mean place among the panels."""
    places: dict[str, list[int]] = {}
    for panel in panels:
        for place, line in enumerate(panel.lines):
            places.setdefault(line.method, []).append(place)
    most = max(len(own) for own in places.values())
    order = sorted(places, key=lambda method: (sum(places[method]) + 99 * (most - len(places[method]))) / most)
    rest = {f"{len(order) - NAMED} other methods": None} if len(order) > NAMED else {}
    return {**dict.fromkeys(order[:NAMED]), **rest, "diverged trial": None}


def _draw(canvas: Any, panels: Sequence[Panel], columns: int, names: Mapping[str, Any]) -> None:
    handles = dict(names)
    rows = -(-len(panels) // columns)
    axes = canvas.subplots(2 * rows, columns, squeeze=False, height_ratios=[4, 1.1] * rows)
    for k, panel in enumerate(panels):
        row, column = divmod(k, columns)
        above, below = axes[2 * row, column], axes[2 * row + 1, column]
        below.sharex(above)
        _draw_panel(above, below, panel, handles)
        above.set_title(panel.title.replace(", ", "\n", 1), fontsize="small")
        if column == 0:
            below.set_ylabel("good\nrange", fontsize="small")
        above.set_ylabel(f"{panel.metric.replace('_', ' ')} ({panel.unit})" if panel.unit != "1" else
                         panel.metric.replace("_", " "))  # fmt: skip
    for k in range(len(panels), rows * columns):
        for ax in (axes[2 * (k // columns), k % columns], axes[2 * (k // columns) + 1, k % columns]):
            ax.set_axis_off()
    legend_below(canvas, {label: handle for label, handle in handles.items() if handle is not None})


def _draw_panel(above: Any, below: Any, panel: Panel, handles: dict[str, Any]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.ticker import NullLocator

    named = [line for line in panel.lines if line.method in handles]
    finite = np.concatenate([line.values[np.isfinite(line.values)] for line in named or panel.lines])
    top = float(min(finite.max() * 1.5, max(30.0, 30 * finite.min())))
    tried = np.concatenate([line.steps for line in named or panel.lines])
    above.set(
        xscale="log", yscale="log", ylim=(0.7 * finite.min(), 2 * top), xlim=(tried.min() / 1.5, tried.max() * 1.5)
    )
    for line in panel.lines:
        x, y = line.envelope()
        if line.method not in handles:
            above.plot(x, y, color=FAINT, linewidth=0.7, zorder=1)
            rest = next(label for label in handles if label.endswith("other methods"))
            handles[rest] = Line2D([], [], color=FAINT, linewidth=0.7)
            continue
        own = look(line.method)
        (handles[line.method],) = above.plot(x, y, linewidth=1.3, markersize=4, zorder=3, **own)
        above.plot(
            line.steps, line.values, ".", color=own["color"], alpha=0.4, markersize=3, zorder=1.5, rasterized=True
        )
        lost = line.steps[np.isinf(line.values)]
        above.plot(lost, np.full(len(lost), 1.55 * top), "x", color=own["color"], markersize=4, zorder=2)
    for place, line in enumerate(named):
        own = look(line.method)
        low, high, open_low, open_high = line.good(panel.factor)
        below.plot([low, high], [place, place], color=own["color"], linewidth=2, solid_capstyle="butt")
        for end, is_open, arrow in ((low, open_low, "<"), (high, open_high, ">")):
            if is_open:
                below.plot([end], [place], marker=arrow, color=own["color"], markersize=3.5)
        below.plot([float(line.best.settings[STEP])], [place], markersize=4, markeredgecolor="white", **own)
    handles["diverged trial"] = Line2D([], [], color="#555555", marker="x", linestyle="", markersize=4)
    below.set(yticks=[], ylim=(len(named) - 0.4, -0.6), xlabel="step size h")
    above.tick_params(labelbottom=False)
    for ax in (above, below):
        ax.xaxis.set_minor_locator(NullLocator())  # hundreds of ticks
        ax.grid(visible=True, color="#ededed", linewidth=0.6)
