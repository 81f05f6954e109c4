"""What docs show of the study: its picture, and the tables of docs/which-sampler.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness import Result
from harness.reports import Column, Figure, Table, number, render
from reports.figures.factors import figure
from reports.orderings import OrderingVerdict
from reports.tables.wide import JOINT

PICTURE = "study"
"""The name of the picture of the study, in docs."""
KINDS = {
    "one mode": ("banana", "gaussian", "gaussian2d", "rosenbrock"),
    "several modes": ("bimodal1d", "mixture5", "mixture25"),
    "regressions": ("blr-german", "pdb-nes1980"),
}
"""The tasks of the study by kind, in the order of its picture."""
BEGIN, END = "<!-- {what} in {suite}: python -m reports.field -->", "<!-- end of {what} -->"
COMPARED = ("sampler", "is", "another", "factor of the joint error")
DECIDED = (OrderingVerdict.HOLDS, OrderingVerdict.FAILS, OrderingVerdict.EQUIVALENT)


def overview(boards: Sequence[Sequence[Mapping[str, Any]]]) -> Figure:
    """Return the picture of the study, times the best joint error by method and task, from the leaderboards' records
    of its parts.
    """
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for board in boards:
        rows = [r for r in board if r["ranked_by"] and r["metric"] == JOINT]
        for row in rows:
            best = min(other["mean"] for other in rows if other["task"] == row["task"] and other["rank"])
            factor = row["mean"] / best if row["rank"] else None
            cells[row["method"], row["task"]] = {"factor": factor, "verdict": row["verdict"]}
    kinds = {task: kind for kind, tasks in KINDS.items() for task in tasks}
    ordered = sorted(cells, key=lambda key: list(kinds).index(key[1]))
    return figure(PICTURE, {key: cells[key] for key in ordered}, kinds)


def with_results(guide: str, suite: str, findings: Sequence[Mapping[str, Any]]) -> str:
    """Return docs/which-sampler.md with tables of a suite between its marks: its leaders and decided statements."""
    decided = [
        {"task": one["task"], **_decided(one), "command": one["command"]}
        for one in findings
        if one["finding"] == "ordering" and one["verdict"] in DECIDED and one["scale"] == "ratio"
    ]
    leaders = [
        {"task": one["task"], "leaders": ", ".join(one["leaders"]) or "none", "best": one["best"],
         "its joint error": number(one["mean"]), "sgld / best": f"x{number(one['against_sgld'])}",
         "data passes": number(one["passes"]), "command": one["command"]}
        for one in findings
        if one["finding"] == "task" and one["metric"] == JOINT
    ]  # fmt: skip
    for what, rows in (("decided", decided), ("leaders", leaders)):
        head, begin, rest = guide.partition(BEGIN.format(what=what, suite=suite))
        _, end, tail = rest.partition(END.format(what=what))
        columns = [Column(name, name) for name in (rows[0] if rows else ())]
        guide = (
            f"{head}{begin}\n{render(Result([Table('', columns, rows)]), 'markdown').strip()}\n{end}{tail}"
            if end
            else guide
        )
    return guide


def _decided(one: Mapping[str, Any]) -> dict[str, str]:
    """Return which of two samplers is better, or that they are equivalent, and by which factor at least."""
    names = (one["better"], one["worse"])
    if one["verdict"] == OrderingVerdict.EQUIVALENT:
        return dict(zip(COMPARED, (names[0], "equivalent to", names[1], "within 1.5"), strict=True))
    turned = one["verdict"] == OrderingVerdict.FAILS
    better, than = names[::-1] if turned else names
    nearer = one["nearer"] if turned else 1 / one["nearer"]
    return dict(zip(COMPARED, (better, "better than", than, f"at least {number(nearer)}"), strict=True))
