"""Cost against error on each task, with the rows that no other row beats in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import Result, UsageError
from harness.reports import Column, FieldScore, Figure, Group, Report, Request, Table
from reports.across import task_fields
from reports.figures.parts import grid, legend_below, legend_height, logarithmic, name_figure, record
from reports.figures.styles import FAINT, look, looks
from reports.tables import wide
from reports.tables.wide import JOINT

if TYPE_CHECKING:
    from harness.reports import Store

COST = "passes_to_low_error"
HEADERS = {"seconds": "seconds of sampling", COST: "data passes to low error"}
NAMED = 8
SOLVED, TOP = 1.0, 30.0
"""The front contains joint errors below that of one exact draw; rows above `TOP` are counted, not shown."""
PANEL = 3.1
FRONT, OTHER = "front: no row is lower in both", "not on any front"
CAPTION = (
    "Points: rows, by cost and joint error at the end of equal budgets, both lower is better; lines: 95 % bootstrap "
    "intervals of the error over seeds, and of data passes. "
    "Black steps: the Pareto front, of the rows that no other row beats in both, by the points alone, among joint "
    "errors below 1, that of one exact draw. Seconds are of sampling alone, from a timing pass (`bench time`)."
)


class Pareto(Report):
    """A panel for each task with a truth: cost against the joint error, in its field with most ranked methods.

    The cost is seconds of sampling, by the timing pass of `bench time`, or with `--metric passes_to_low_error` data
    passes to low error. `reports.across` chooses the field.

    At equal budgets rows differ in error after equal gradients, and in seconds by the costs of a step beside its
    gradient. A row is on the front if its joint error is below 1, that of one exact draw, and no other row is at most
    as high in both and lower in one. The front is that of the points: rows whose intervals overlap may change places.
    Infinite data passes to low error have no point.
    """

    name: ClassVar[str] = "pareto"

    def build(self, store: Store, request: Request) -> Result:
        cost = request.metric or "seconds"
        if cost not in HEADERS:
            raise UsageError(f"pareto knows --metric {COST}, and seconds without it, not {cost!r}")
        fields = task_fields(store, Request(**{**vars(request), "metric": None}), JOINT)
        panels = [(field.score, points) for field in fields if (points := _points(field.score, cost))]
        records = [_record(score, point, cost) for score, points in panels for point in points]
        groups = [point.group for _, points in panels for point in points]
        machines = _machines(groups) if not request.metric else []
        if not records:
            cause = f"a finite cost ({HEADERS[cost]})" if request.metric else "seconds; `bench time` measures them"
            where = cause if fields else "five finished seeds on a task with a truth"
            return Result(notes=[f"no two rows have {where}"])
        columns = _columns(panels)
        names = _named(panels)
        width = max(columns * PANEL, 6.4)
        size = (width, -(-len(panels) // columns) * PANEL * 0.9 + 0.6 + legend_height(names, width))
        figure = Figure("pareto", lambda canvas: _draw(canvas, panels, cost, names), size, CAPTION)
        return Result([_table(score, records, cost, machines) for score, _ in panels], records, [figure], machines)


@dataclass(frozen=True, eq=False)
class CostPoint:
    """A row: its cost and joint error, each with its ends, and whether it is on the front."""

    label: str
    group: Group
    cost: tuple[float, float, float]
    error: tuple[float, float, float]
    front: bool


def _points(score: FieldScore, cost: str) -> list[CostPoint]:
    rows = []
    for group in score.ordered(JOINT):
        error, price = score.estimate(group, JOINT), _cost(score, group, cost)
        if score.standing(group, JOINT).rank is not None and error is not None and price is not None:
            rows.append((group, price, wide.with_ends(error) or (np.inf, np.inf, np.inf)))
    front = pareto_front([(price[0], error[0]) for _, price, error in rows])
    return [
        CostPoint(score.labels[g.key], g, price, error, on) for (g, price, error), on in zip(rows, front, strict=True)
    ]


def _cost(score: FieldScore, group: Group, cost: str) -> tuple[float, float, float] | None:
    if cost == COST:
        ends = wide.with_ends(score.estimate(group, COST))
        return ends if ends is not None and np.isfinite(ends[0]) else None
    return None if group.seconds is None else (group.seconds,) * 3


def pareto_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Return whether each error (second) is below `SOLVED`, and no other point is at most as high and differs."""
    return [y < SOLVED and not any(a <= x and b <= y and (a, b) != (x, y) for a, b in points) for x, y in points]


def _machines(groups: Sequence[Group]) -> list[str]:
    """Return a note if rows were timed on several machines, because their seconds cannot be compared."""
    names = sorted({group.timing.machine for group in groups if group.timing})
    return [f"seconds are of several machines and do not compare: {'; '.join(names)}"] if len(names) > 1 else []


def _record(score: FieldScore, point: CostPoint, cost: str) -> dict[str, Any]:
    return record(
        "pareto", point.group, label=point.label, seeds=len(point.group.runs), cost=cost, cost_value=point.cost[0],
        cost_low=point.cost[1], cost_high=point.cost[2], joint_error=point.error[0], low=point.error[1],
        high=point.error[2], interval="bootstrap 95 %" if point.error[1] < point.error[2] else "none",
        front=point.front, field=score.title,
        run_keys=[run.key for run in point.group.runs],
    )  # fmt: skip


def _table(score: FieldScore, records: Sequence[Mapping[str, Any]], cost: str, notes: Sequence[str]) -> Table:
    rows = [
        {
            **record,
            "front": "yes" if record["front"] else "",
            "ends": f"[{record['low']:.3g}, {record['high']:.3g}]" if record["interval"] != "none" else "-",
        }
        for record in sorted(records, key=lambda record: record["cost_value"])
        if record["field"] == score.title
    ]
    columns = [
        Column("label", "method"), Column("seeds", "seeds", "right"), Column("front", "on the front"),
        Column("cost_value", HEADERS[cost], "right", ".3g"), Column("joint_error", "joint error", "right", ".3g"),
        Column("ends", "95 %", "right"),
    ]  # fmt: skip
    return Table(
        score.title,
        columns,
        rows,
        ["on the front: no other row is lower in both, and the joint error is below 1", *notes],
    )


def _columns(panels: Sequence[Any]) -> int:
    return min(len(panels), 2 if len(panels) == 4 else 3)


def _named(panels: Sequence[tuple[FieldScore, Sequence[CostPoint]]]) -> dict[str, Any]:
    """Return the labels of the legend: all rows if they are few, otherwise those on a front."""
    labels = sorted({point.label for _, points in panels for point in points})
    front = sorted({point.label for _, points in panels for point in points if point.front})
    some = len(labels) > NAMED
    return dict.fromkeys([*(front if some else labels), *([OTHER] if some else []), FRONT])


def _draw(
    canvas: Any, panels: Sequence[tuple[FieldScore, Sequence[CostPoint]]], cost: str, names: Mapping[str, Any]
) -> None:
    handles = dict(names)
    axes = list(grid(canvas, len(panels), _columns(panels), HEADERS[cost], "joint error at the end", shared=()))
    for ax, (_, points) in zip(axes, panels, strict=True):
        styles = looks([point.label for point in points])
        for point in (point for point in points if point.error[0] <= TOP):
            named = point.label in names
            style = look(point.group.method) if named else {"color": FAINT, "marker": "o"}
            colour, layer = style["color"], 3 if named else 1
            open_ = {"markerfacecolor": "white"} if named and styles[point.label]["linestyle"] != "-" else {}
            ax.plot([point.cost[0]] * 2, point.error[1:], color=colour, linewidth=0.9, zorder=layer)
            ax.plot(point.cost[1:], [point.error[0]] * 2, color=colour, linewidth=0.9, zorder=layer)
            (handle,) = ax.plot(
                point.cost[0],
                point.error[0],
                linestyle="",
                markersize=5 if named else 3,
                zorder=layer + 1,
                **style,
                **open_,
            )
            handles[point.label if named else OTHER] = handle
        ax.set(yscale="log", title=f"{points[0].group.task}, {points[0].group.chains} chains")
        ax.set_ylim(top=min(ax.get_ylim()[1], 2 * TOP))
        logarithmic(ax, ax.get_xlabel())
        high = sum(point.error[0] > TOP for point in points)
        if high:
            ax.text(0.98, 0.97, f"{high} above {TOP:g}", transform=ax.transAxes, ha="right", va="top", fontsize="small")
        front = sorted((point.cost[0], point.error[0]) for point in points if point.front)
        if front:
            right = ax.get_xlim()[1]
            x, y = zip(*front, (right, front[-1][1]), strict=True)
            (handles[FRONT],) = ax.step(x, y, where="post", color="black", linewidth=0.8, zorder=2)
            ax.set_xlim(right=right)
        ax.grid(visible=True, color="#ededed", linewidth=0.6)
    budgets = sorted({score.groups[0].budget for score, _ in panels})
    name_figure(canvas, f"Cost and error at the end of the budget ({', '.join(budgets)})")
    legend_below(canvas, {label: handle for label, handle in handles.items() if handle is not None})
