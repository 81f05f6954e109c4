"""How many times the best joint error each method has on each task, and what the seeds decide: one picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from harness import Result, statistics
from harness.reports import Column, Figure, Report, Request, Table, number
from reports.across import loss, protocol_fields
from reports.tables.wide import JOINT

if TYPE_CHECKING:
    from harness.reports import Store

SHADES = ((2.0, "#e6f2d9"), (10.0, "#fbeecb"), (math.inf, "#f7d9d3"))
"""Colours by the largest factor that has them, as on the pages of `bench site`."""
LEADING, NO_VALUE = "#bfe6c8", "#eeeeee"
WORST = 1000.0
"""The factor in the order of methods of a row that diverged, and the largest that counts there."""
CELL = (0.85, 0.28)
NAMES, TITLES, KINDS, LEGEND = 1.2, 0.75, 0.25, (1.05, 0.22)
"""Inches for the names of methods, for those of tasks, for the kinds below the cells, and of an entry of the legend."""
BELOW = ("below 2", "below 10", "more")
COLOURS = ((LEADING, "best or tied"), *((colour, words) for (_, colour), words in zip(SHADES, BELOW, strict=True)))
"""What is said of each colour."""
OPEN = "?: not decided"
LABELS = [*(words for _, words in COLOURS), OPEN]
CAPTION = (
    "The joint error of each method divided by the lowest on the task, at equal data passes. Green and bold: best, or "
    "tied with the best by a test; light green: less than twice, yellow: less than ten times, red: more. A question "
    "mark: these seeds do not decide whether it is worse. Methods in the order of the mean of the logarithm."
)
NOTE = (
    "joint error divided by the lowest on the task, at equal data passes; *: best, or tied with the best by a test; ?: "
    "these seeds do not decide whether it is worse"
)
NOTHING = "no two methods have a joint error on the same task: a row needs five finished seeds on a task with a truth"


class Factors(Report):
    """For each method and task the joint error divided by the lowest on the task, and the verdict of the leaderboard.

    Of a task the protocol's field with the most methods counts, of a method the row as in `reports.across`. A row of
    which a seed diverged has no factor.
    """

    name: ClassVar[str] = "factors"

    def build(self, store: Store, request: Request) -> Result:
        records: list[dict[str, Any]] = []
        for field in protocol_fields(store, request).values():
            if field.metric != JOINT:
                continue
            best = min(loss(field, group) for group in field.rows.values())
            for method, group in field.rows.items():
                rank = field.score.standing(group, JOINT).rank
                value = loss(field, group)
                finite = math.isfinite(value) and best > 0
                records.append({
                    "task": field.task, "protocol": field.protocol, "method": method,
                    "label": field.score.labels[group.key], "seeds": len(group.runs),
                    "mean": value if math.isfinite(value) else None, "factor": value / best if finite else None,
                    "verdict": str(rank.verdict) if rank else None, "run_keys": [run.key for run in group.runs],
                })  # fmt: skip
        if not records:
            return Result(notes=[NOTHING])
        columns = [(f"{r['task']}@{r['protocol']}", r) for r in records]
        names = {key: record["task"] for key, record in columns}
        several = {key: name if [*names.values()].count(name) == 1 else key for key, name in names.items()}
        cells = {(record["method"], several[key]): record for key, record in columns}
        return Result([_table(cells)], records, [figure(self.name, cells)])


Cells = Mapping[tuple[str, str], Mapping[str, Any]]
"""By method and task: its "factor", None if it has none, and its "verdict"."""


def methods_of(cells: Cells) -> list[str]:
    """Return the methods in the order of the mean logarithm of their factors, last those of under half the tasks."""
    logs: dict[str, list[float]] = {}
    for (method, _), cell in cells.items():
        logs.setdefault(method, []).append(math.log(min(cell["factor"] or WORST, WORST)))
    half = len({task for _, task in cells}) / 2
    return sorted(logs, key=lambda method: (len(logs[method]) < half, sum(logs[method]) / len(logs[method]), method))


def tasks_of(cells: Cells) -> list[str]:
    """Return the tasks in the order of their first cell."""
    return list(dict.fromkeys(task for _, task in cells))


def text(cell: Mapping[str, Any] | None) -> str:
    """Return the text of a cell: "1.41", "3.2 ?" of one that may be as good as the best, "failed", "-" without runs."""
    if cell is None:
        return "-"
    if cell["factor"] is None:
        return "failed"
    open_ = cell["verdict"] not in (*statistics.LEADS, statistics.Verdict.WORSE)
    factor = cell["factor"]
    digits = f"{factor:.2f}" if factor < 10 else number(factor) if factor >= 1000 else f"{factor:.0f}"
    return f"{digits} ?" if open_ else digits


def _leads(cell: Mapping[str, Any] | None) -> bool:
    return cell is not None and cell["verdict"] in statistics.LEADS


def _table(cells: Cells) -> Table:
    tasks = tasks_of(cells)
    rows = [
        {
            "method": method,
            **{task: text(cells.get((method, task))) + "*" * _leads(cells.get((method, task))) for task in tasks},
        }
        for method in methods_of(cells)
    ]
    return Table("Times the best joint error", [Column("method", "method"), *(Column(t, t, "right") for t in tasks)],
                 rows, [NOTE])  # fmt: skip


def figure(name: str, cells: Cells, kinds: Mapping[str, str] | None = None) -> Figure:
    """Return the figure of these cells; `kinds`, by task, are written below neighbouring tasks of one kind."""
    methods, tasks = methods_of(cells), tasks_of(cells)
    width = NAMES + CELL[0] * len(tasks)
    height = TITLES + CELL[1] * len(methods) + KINDS + LEGEND[1] * -(-len(LABELS) // _columns(width))
    return Figure(name, lambda canvas: _draw(canvas, cells, methods, tasks, kinds or {}), (width, height), CAPTION)


def _draw(canvas: Any, cells: Cells, methods: Sequence[str], tasks: Sequence[str], kinds: Mapping[str, str]) -> None:
    ax = canvas.subplots()
    for row, method in enumerate(methods):
        for column, task in enumerate(tasks):
            cell = cells.get((method, task))
            leads = _leads(cell)
            ax.add_patch(_rectangle(column, row, _colour(cell, leads=leads)))
            ax.text(column, row, text(cell), ha="center", va="center", fontsize="small",
                    fontweight="bold" if leads else "normal")  # fmt: skip
    ax.set(xlim=(-0.5, len(tasks) - 0.5), ylim=(len(methods) - 0.5, -0.5))
    ax.set_xticks(range(len(tasks)), tasks, fontsize="small", rotation=30, ha="left", rotation_mode="anchor")
    ax.set_yticks(range(len(methods)), methods)
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    ax.spines[:].set_visible(False)
    for kind in dict.fromkeys(kinds.get(task, "") for task in tasks):
        columns = [column for column, task in enumerate(tasks) if kinds.get(task, "") == kind]
        if kind:
            ax.text(sum(columns) / len(columns), len(methods) - 0.3, kind, ha="center", va="top", fontsize="small",
                    fontweight="bold")  # fmt: skip
    _add_legend(canvas)


def _columns(width: float) -> int:
    """Return how many entries of the legend stand beside each other in so many inches."""
    return max(1, min(len(LABELS), int(width / LEGEND[0])))


def _add_legend(canvas: Any) -> None:
    """Add what the colours and the question mark mean."""
    handles = [_rectangle(0, 0, colour) for colour, _ in (*COLOURS, ("white", OPEN))]
    canvas.legend(handles, LABELS, loc="outside lower center", ncols=_columns(canvas.get_figwidth()), frameon=False,
                  fontsize="small", handlelength=1, columnspacing=1)  # fmt: skip


def _rectangle(column: float, row: int, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.5)


def _colour(cell: Mapping[str, Any] | None, *, leads: bool) -> str:
    if cell is None or cell["factor"] is None:
        return NO_VALUE
    return LEADING if leads else next(colour for most, colour in SHADES if cell["factor"] < most)
