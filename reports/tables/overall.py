"""One table over all tasks: how fast each method reaches fixed targets of the joint error, beside the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import Result
from harness.reports import MARGINS, Column, Report, Request, Table, number, typical
from reports.across import TaskField, pool, shared_tasks
from reports.figures.ranks import NOTHING
from reports.tables import wide
from reports.targets import (
    LEAST,
    Targets,
    WithInterval,
    area,
    load_targets,
    method_costs,
    share_reached,
    speed_up,
)  # fmt: skip

if TYPE_CHECKING:
    from harness.reports import Store
    from reports.figures.parts import Array

BASELINE = "sgld"
MOST = 12
"""Most rows of the table; the baseline is always one of them."""
POINTS = 61
"""Points of the fixed-target curve in a record."""


class Overall(Report):
    """The share of fixed targets of the joint error reached by cost, over all tasks with a truth: one row per method,
    at most twelve, the baseline sgld among them; the records have all methods and their curves (`reports.targets`).

    The area under the curve ranks the methods with a value on all tasks; one that misses some shows on how many it has
    a value instead. The speed-up is the ratio of the geometric means of costs to the targets, the baseline's by the
    method's, on the tasks that both have. A verdict is by the speed-up over the best method, in intervals of all pairs
    that hold at once: tied within a factor 1.5. Filters choose the pool, to which the baseline is added, and ranks are
    those in the pool. Tasks and rows are chosen as in `reports.across`.
    """

    name: ClassVar[str] = "overall"

    def build(self, store: Store, request: Request) -> Result:
        methods = tuple(dict.fromkeys([*request.methods, BASELINE])) if request.methods else ()
        tasks, _, left_out = shared_tasks(store, replace(request, methods=methods, metric=None), wide.JOINT)
        targets = load_targets()
        entries = _entries(tasks, targets)
        if len(entries) < 2:
            return Result(notes=[NOTHING])
        records = _records(entries, tasks, targets)
        notes = [f"left out: {why}" for why in left_out] if request.tasks else []
        return Result([_table(records, tasks, targets)], records, notes=notes)


@dataclass(frozen=True, eq=False)
class Entry:
    """A method with the tasks on which it has a value, and its costs (S, K) to the targets of each of them."""

    method: str
    costs: Mapping[str, Array]
    fields: Sequence[TaskField]

    def beside(self, other: Entry) -> WithInterval | None:
        """Return the speed-up over another method on the tasks that both have; None if they share none."""
        return self._against(other, 0.95)

    def against(self, best: Entry, pairs: int) -> str:
        """Return the verdict against the best method, in an interval that holds for all pairs at once."""
        if self is best:
            return "best"
        factor = self._against(best, 1 - 0.05 / pairs)
        if factor is None or factor.low is None or factor.high is None:
            return "not known"
        if factor.low > np.exp(-MARGINS[wide.JOINT]) and factor.high < np.exp(MARGINS[wide.JOINT]):
            return "tied"
        return "worse" if factor.high < 1 else "not known"

    def _against(self, other: Entry, level: float) -> WithInterval | None:
        both = [task for task in self.costs if task in other.costs]
        return speed_up([self.costs[t] for t in both], [other.costs[t] for t in both], level) if both else None


def _entries(tasks: Sequence[TaskField], targets: Targets) -> list[Entry]:
    """Return the methods of these tasks, the largest area first; those on less than half of the tasks come last."""
    entries = []
    for method in sorted({name for field in tasks for name in field.rows}):
        fields = [field for field in tasks if method in field.rows]
        costs = {field.task: method_costs(field, field.rows[method], targets) for field in fields}
        known = {task: each for task, each in costs.items() if each is not None}
        if known:
            entries.append(Entry(method, known, [field for field in fields if field.task in known]))
    return sorted(entries, key=lambda e: (2 * len(e.costs) < len(tasks), -area([*e.costs.values()]).value, e.method))


def _records(entries: Sequence[Entry], tasks: Sequence[TaskField], targets: Targets) -> list[dict[str, Any]]:
    whole = [entry for entry in entries if len(entry.costs) == len(tasks)]
    baseline = next((entry for entry in entries if entry.method == BASELINE), None)
    areas = {entry.method: area([*entry.costs.values()]).value for entry in whole}
    ranks = {method: 1 + sum(other > value for other in areas.values()) for method, value in areas.items()}
    pairs = max(len(whole) * (len(whole) - 1) // 2, 1)
    points = np.geomspace(LEAST, 1, POINTS)
    records = []
    for entry in entries:
        reached, costs = area([*entry.costs.values()]), [*entry.costs.values()]
        faster = entry.beside(baseline) if baseline is not None and entry is not baseline else None
        missing = {f.task: f.missing.get(entry.method, "no runs") for f in tasks if f.task not in entry.costs}
        rows = [field.rows[entry.method] for field in entry.fields]
        records.append({
            "rank": ranks.get(entry.method), "method": entry.method,
            "verdict": entry.against(whole[0], pairs) if entry.method in ranks else None,
            "area": reached.value, "low": reached.low, "high": reached.high, "interval": "bootstrap 95 %",
            "speed_up": faster and faster.value, "speed_up_low": faster and faster.low,
            "speed_up_high": faster and faster.high,
            "seconds": _times_seconds(entry), "passes": sum(typical(row.done.numbers.passes) or 0.0 for row in rows),
            "tasks": [*entry.costs], "of": len(tasks), "seeds": min(len(each) for each in costs),
            "diverged_tasks": sum(bool(group.diverged) for group in rows),
            "missing": "; ".join(f"{task} ({why})" for task, why in missing.items()) or None,
            "targets": targets.version, "cost": points.tolist(), "share": share_reached(costs, points).tolist(),
            "run_keys": [run.key for group in rows for run in group.runs],
        })  # fmt: skip
    return records


def _times_seconds(entry: Entry) -> float | None:
    """Return the geometric mean over tasks of a method's seconds of sampling by the baseline's; None if unknown."""
    pairs = [(field.rows[entry.method].seconds, field.rows[BASELINE].seconds) for field in entry.fields
             if BASELINE in field.rows]  # fmt: skip
    ratios = [seconds / base for seconds, base in pairs if seconds and base]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else None


def _table(records: Sequence[Mapping[str, Any]], tasks: Sequence[TaskField], targets: Targets) -> Table:
    first = [r for r in records if r["method"] != BASELINE][: MOST - 1]
    chosen = [r for r in records if r in first or r["method"] == BASELINE]
    timed = any(record["seconds"] is not None for record in records)
    rows = [
        {
            **record,
            "place": str(record["rank"] or f"{len(record['tasks'])} of {record['of']} tasks"),
            "area_shown": _with_ends(record, "area", "low", "high"),
            "speed_up_shown": _with_ends(record, "speed_up", "speed_up_low", "speed_up_high"),
            "warning": f"diverged on {record['diverged_tasks']}" if record["diverged_tasks"] else None,
        }
        for record in chosen
    ]
    columns = [
        Column("rank", "rank", "right", shown="place"), Column("method", "method"), Column("verdict", "verdict"),
        Column("area", "area", "right", shown="area_shown"),
        Column("speed_up", f"times as fast as {BASELINE}", "right", shown="speed_up_shown"),
        Column("seconds", f"seconds / {BASELINE}'s", "right", number)
        if timed else Column("passes", "data passes", "right", number),
        Column("warning", "warning"),
    ]  # fmt: skip
    more = [
        Column("seeds", "seeds", "right"),
        Column("missing", "no value on"),
        Column("targets", "version of the targets"),
    ]
    more += [Column("passes", "data passes", "right", number)] if timed else []
    hidden = len(records) - len(chosen)
    ends = f"{targets.errors[0]:g} to {targets.errors[-1]:g}"
    note = f"Area: share of joint errors {ends} reached. []: 95 % over seeds, tasks. Terms: docs/glossary.md"
    title = f"All tasks: {pool(len(records), len(tasks), min(record['seeds'] for record in records))}"
    return Table(f"{title}{f'; {hidden} more methods in --json' * bool(hidden)}", columns, rows, [note], 2, more)


def _with_ends(record: Mapping[str, Any], *names: str) -> str:
    value, low, high = (record[name] for name in names)
    return "" if value is None else number(value) + (f" [{number(low)}, {number(high)}]" if low is not None else "")
