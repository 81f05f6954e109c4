"""The share of fixed targets of the joint error that a method reaches, against cost, by kind of task."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import BenchError, Result
from harness.reports import Column, Figure, Report, Request, Table
from reports.across import TaskField, distinct, task_fields
from reports.figures.charts import INK, chart, line
from reports.figures.convergence import line_of, most_draws
from reports.figures.floor import ExactDraws, floor
from reports.figures.parts import Array, legend_below, legend_height
from reports.figures.styles import FAINT, looks
from reports.tables.wide import JOINT
from reports.targets import (
    LEAST,
    Targets,
    WithInterval,
    area,
    costs_to_targets,
    load_targets,
    method_costs,
    share_reached,
)

if TYPE_CHECKING:
    from harness.reports import Store

ALL = "all tasks"
GRID = np.geomspace(LEAST, 1.0, 61)
"""Costs at which a curve is shown, as shares of the budget."""
RESAMPLES = 400
NAMED = 8
"""Lines in colour, those with the largest area."""
WIDTH = 8.4
COST, SHARE = "cost, as a share of the budget", "share of (task, target, seed) reached"
EXACT = "exact draws"
CAPTION = (
    "{kind}: the share of (task, target, seed) reached by a cost, of {targets} fixed targets of the joint error from "
    "{greatest:g} to {least:g} (version {version}). A target is reached when the error of a seed, the mean over its "
    "chains of b2 in the worst direction, stays below it; costs are gradients, as shares of the budget, "
    "burn-in included. Bands: 95 % bootstrap intervals over seeds, the tasks are fixed; the end of a line, a {end}, is "
    "the budget. Dashed: as many independent exact draws as the method with the most draws had kept by then. Tasks: "
    "{tasks}."
)


class TargetsReached(Report):
    """A figure for each kind of task, and one of all: the share of fixed targets reached, against cost.

    Of a task the field with the most ranked methods counts, as in `reports.across`, and of a kind the methods that have
    a row with curves of errors on all of its tasks. Each task weighs the same. `reports.targets` has the definitions.
    """

    name: ClassVar[str] = "targets"

    def build(self, store: Store, request: Request) -> Result:
        targets = load_targets()
        fields, _ = distinct([f for f in task_fields(store, request, JOINT) if f.score.truth_known], request)
        tasks = [known for field in fields if (known := _task(field, targets, request)) is not None]
        kinds: dict[str, list[TaskCosts]] = {ALL: tasks} if tasks else {}
        for known in tasks:
            kinds.setdefault(known.kind, []).append(known)
        if len(kinds) == 2:
            del kinds[ALL]
        parts = [part for name, members in kinds.items() if (part := _of_kind(name, members, targets)) is not None]
        if not parts:
            return Result(notes=["no two methods have curves of errors of five seeds on a task with a truth"])
        tables, records, figures = (list(part) for part in zip(*parts, strict=True))
        return Result(tables, [record for of_kind in records for record in of_kind], figures)


@dataclass(frozen=True, eq=False)
class TaskCosts:
    """A task with the costs (S, K) of each method to the targets, and those (1, K) of exact draws, if known."""

    field: TaskField
    kind: str
    costs: Mapping[str, Array]
    exact: Array | None


def _task(field: TaskField, targets: Targets, request: Request) -> TaskCosts | None:
    """Return the costs on a task; None if fewer than two methods have curves of errors."""
    costs = {
        name: known for name, group in field.rows.items() if (known := method_costs(field, group, targets)) is not None
    }
    if len(costs) < 2:
        return None
    return TaskCosts(field, kind_of(field.task, request), costs, _exact(field, targets, request))


def kind_of(task: str, request: Request) -> str:
    """Return the kind of a built-in task, which is its folder; of another one "other tasks"."""
    try:
        target = request.registry.find("tasks", task).target if request.registry is not None else ""
    except BenchError:
        target = ""
    folders = target.partition(":")[0].split(".")
    return folders[1] if folders[0] == "tasks" and len(folders) > 2 else "other tasks"


def _exact(field: TaskField, targets: Targets, request: Request) -> Array | None:
    """Return the costs (1, K) of as many exact draws as the method with the most draws had kept by then."""
    lines = [known for group in field.rows.values() if (known := line_of(field.score, group, banded=False)) is not None]
    exact = floor(lines[0].group, request) if lines else ""
    if not isinstance(exact, ExactDraws) or (most := most_draws(lines)) is None:
        return None
    passes, counts = most
    k = exact.directions
    constant = max(part.max(axis=1).mean() for part in (exact.squares[:, :k], exact.squares[:, k : 2 * k]))
    return costs_to_targets([constant / counts], np.minimum(passes / field.passes, 1.0), targets.errors)


Part = tuple[Table, list[dict[str, Any]], Figure]


@dataclass(frozen=True, eq=False)
class Reached:
    """A method's curve on the tasks of a kind: shares at `GRID` with the ends of their intervals, and its area."""

    label: str
    shares: Array
    low: Array
    high: Array
    area: WithInterval


def _of_kind(kind: str, tasks: Sequence[TaskCosts], targets: Targets) -> Part | None:
    names = sorted(set.intersection(*(set(task.costs) for task in tasks)))
    if len(names) < 2:
        return None
    curves = [reached(name, [task.costs[name] for task in tasks]) for name in names]
    curves.sort(key=lambda curve: (-curve.area.value, curve.label))
    ideal = [task.exact for task in tasks if task.exact is not None]
    exact = share_reached(ideal, GRID) if len(ideal) == len(tasks) else None
    records = [_record(kind, curve, tasks, targets) for curve in curves]
    left_out = sorted({name for task in tasks for name in task.costs} - set(names))
    notes = [f"left out, without curves of errors on some task: {', '.join(left_out)}"] if left_out else []
    describe = functools.partial(
        CAPTION.format, kind=kind[:1].upper() + kind[1:], targets=len(targets.errors), greatest=targets.errors[0],
        least=targets.errors[-1], version=targets.version, tasks="; ".join(task.field.score.title for task in tasks),
    )  # fmt: skip
    height = 3.6 + legend_height([curve.label for curve in curves[:NAMED]], WIDTH)
    name = f"targets-{kind.replace(' ', '-')}"
    numbers = _chart(curves, exact, describe(end="point"))
    draw = functools.partial(_draw, kind=kind, curves=curves, exact=exact)
    figure = Figure(name, draw, (WIDTH, height), describe(end="cross"), chart=numbers)
    return _table(kind, records, notes), records, figure


def reached(label: str, costs: Sequence[Array]) -> Reached:
    """Return the curve of a method from its costs (S, K) on each task, with intervals over resampled seeds."""
    shares = share_reached(costs, GRID)
    generator = np.random.default_rng(0)
    replicates = np.zeros((RESAMPLES, len(GRID)))
    for task in costs:
        of_seed = (task[..., None] <= GRID).mean(axis=1)
        seeds = len(task)
        times = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES)
        replicates += times @ of_seed / seeds / len(costs)
    low, high = np.quantile(replicates, [0.025, 0.975], axis=0)
    return Reached(label, shares, np.minimum(low, shares), np.maximum(high, shares), area(costs))


def _record(kind: str, curve: Reached, tasks: Sequence[TaskCosts], targets: Targets) -> dict[str, Any]:
    groups = [task.field.rows[curve.label] for task in tasks]
    return {
        "figure": f"targets-{kind.replace(' ', '-')}", "kind": kind, "tasks": [task.field.task for task in tasks],
        "method": curve.label, "targets_version": targets.version, "reached": float(curve.shares[-1]),
        "reached_low": float(curve.low[-1]), "reached_high": float(curve.high[-1]), "area": curve.area.value,
        "low": curve.area.low, "high": curve.area.high, "interval": "bootstrap over tasks and seeds 95 %",
        "run_keys": [run.key for group in groups for run in group.runs],
    }  # fmt: skip


def _table(kind: str, records: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> Table:
    def ends(low: float | None, high: float | None) -> str:
        return "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"

    rows = [
        {
            "method": r["method"], "run_keys": r["run_keys"],
            "reached": f"{r['reached']:.0%} [{r['reached_low']:.0%}, {r['reached_high']:.0%}]".replace("%", " %"),
            "area": f"{r['area']:.2f}{ends(r['low'], r['high'])}",
        }
        for r in records
    ]  # fmt: skip
    columns = [
        Column("method", "method"), Column("area", "area under the curve", "right"),
        Column("reached", "targets reached in the budget", "right"),
    ]  # fmt: skip
    about = "area: mean over tasks, seeds and targets of log(1 / cost) / log 1000, the cost as a share of the budget"
    over = "intervals: bootstrap, of the area over tasks and seeds, of the share over seeds"
    return Table(f"Targets reached, {kind}: {', '.join(records[0]['tasks'])}", columns, rows, [about, over, *notes])


def _chart(curves: Sequence[Reached], exact: Array | None, caption: str) -> Any:
    styles = looks([curve.label for curve in curves])
    lines = [
        line(o.label, styles[o.label]["color"], GRID, o.shares, o.low, o.high, end=True) for o in curves
    ]  # fmt: skip
    lines += [line(EXACT, INK, GRID, exact, dash=True)] if exact is not None else []
    return chart(COST, SHARE, lines, caption, "x", (0.0, 1.02))


def _draw(canvas: Any, kind: str, curves: Sequence[Reached], exact: Array | None) -> None:
    ax = canvas.subplots()
    styles = looks([curve.label for curve in curves])
    handles: dict[str, Any] = {}
    for k, curve in enumerate(curves):
        style = styles[curve.label] if k < NAMED else {"color": FAINT}
        plain = {name: value for name, value in style.items() if name in {"color", "linestyle", "alpha"}}
        (handle,) = ax.plot(GRID, curve.shares, linewidth=1.5 if k < NAMED else 0.7, zorder=3, **plain)
        ax.plot(1.0, curve.shares[-1], marker="x", markersize=6, color=style["color"], clip_on=False, zorder=4)
        if k < NAMED:
            ax.fill_between(GRID, curve.low, curve.high, color=style["color"], alpha=0.12, linewidth=0)
            handles[curve.label] = handle
    if len(curves) > NAMED:
        handles[f"{len(curves) - NAMED} other methods"] = handle
    if exact is not None:
        (handles[EXACT],) = ax.plot(GRID, exact, color="black", linewidth=1, linestyle="--")
    ax.set(xscale="log", xlim=(LEAST, 1.0), ylim=(0, 1.02), xlabel=COST, ylabel=SHARE, title=kind)
    ax.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    legend_below(canvas, handles)
