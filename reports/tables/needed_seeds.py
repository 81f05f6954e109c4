"""How many seeds decide which declared orderings and which rows of leaderboards, and what these seeds cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from harness import Result, statistics
from harness.reports import Column, Group, PairOutcome, Report, Request, Table, number, typical
from reports.across import TaskField, protocol_fields, task_fields
from reports.orderings import JudgedOrdering, judge_orderings, load_orderings
from reports.tables.findings_tables import STATEMENTS

if TYPE_CHECKING:
    from harness.reports import Comparison, Store

COUNTS = (5, 10, 20, 40, 80, 160, 320)
NEEDED = (
    "seeds to decide: with so many, the interval excludes no difference or lies within the margin with probability 0.8 "
    "if difference and spread are as these seeds show; the level is that of the family (RULES.md 5)"
)
CHANCE = (
    "orderings decided: how many are expected of those with runs, over what these seeds leave open of differences and "
    "spreads; failures that they do not show are left out"
)
ALL_PASSES = "data passes: of so many seeds of these orderings, over all chains of both rows"
PASSES = "data passes: of the seeds that are still to run, over all chains of both rows"


class NeededSeeds(Report):
    """How many seeds decide what, from the runs that there are.

    For each published ordering of two samplers, and for each row of a task against the best row: whether it is decided,
    how many seeds would decide it with probability 0.8, and the data passes of the seeds that are still to run. A table
    shows how many orderings so many new seeds are expected to decide, and their cost. It counts what few seeds, as in
    pilot runs, leave open.

    Of a task the field with the most methods counts, of a method its tuned row, as in `reports.across`.
    """

    name: ClassVar[str] = "needed-seeds"

    def build(self, store: Store, request: Request) -> Result:
        of_tasks = {field.task: field for field in task_fields(store, request)}
        fields = protocol_fields(store, request) | of_tasks
        judged = judge_orderings(load_orderings(), fields, request)
        orderings = [_ordering(one, fields[one.ordering.task]) for one in judged if one.ordering.task in fields]
        rows = [record for field in of_tasks.values() for record in _rows(field)]
        tables = [_counted(orderings), _table(STATEMENTS, orderings), _table("Rows against the best", rows)]
        return Result([table for table in tables if table.rows], [*orderings, *rows])


def _ordering(one: JudgedOrdering, field: TaskField) -> dict[str, Any]:
    compared = one.comparison
    groups = [field.groups[name] for name in (one.ordering.better, one.ordering.worse) if compared is not None]
    seeds = len(compared.pairs) if compared is not None else 0
    decided = compared is not None and compared.outcome != PairOutcome.UNDECIDED
    needed = compared.seeds_to_decide if compared is not None and not compared.withheld else None
    return _record("ordering", field, one.ordering.better, one.ordering.worse, one.metric) | {
        "says": str(one.verdict), "decided": decided, "seeds": seeds, "seeds_to_decide": needed,
        "passes_a_seed": _cost(groups), "reason": one.reason or None,
        **{f"decided_by_{count}": _chance(compared, count) for count in COUNTS},
    }  # fmt: skip


def _chance(compared: Comparison | None, count: int) -> float:
    """The probability that so many new seeds decide."""
    return 0.0 if compared is None or compared.withheld else compared.chance_to_decide(count)


def _rows(field: TaskField) -> list[dict[str, Any]]:
    """A record for each ranked row but the best, by the metric that ranks the task."""
    score, by = field.score, field.metric
    ranks = [(group, rank) for group in score.ordered(by) if (rank := score.standing(group, by).rank)]
    return [
        _record("row", field, score.labels[group.key], score.labels[ranks[0][0].key], by) | {
            "says": str(rank.verdict), "decided": rank.verdict in (statistics.Verdict.TIED, statistics.Verdict.WORSE),
            "seeds": len(group.runs),
            "seeds_to_decide": rank.seeds, "passes_a_seed": _cost([group, ranks[0][0]]), "reason": None,
        }
        for group, rank in ranks[1:]
    ]  # fmt: skip


def _record(kind: str, field: TaskField, a: str, b: str, metric: str) -> dict[str, Any]:
    return {"finding": kind, "task": field.task, "a": a, "b": b, "metric": metric}


def _cost(groups: Sequence[Group]) -> float:
    """Data passes of one seed of these rows, over all chains."""
    return sum(group.chains * (typical(group.done.numbers.passes) or 0.0) for group in groups)


def _more(record: Mapping[str, Any]) -> float:
    """Data passes of the seeds that are still to run until it is decided."""
    if record["decided"] or record["seeds_to_decide"] is None:
        return 0.0
    return max(0, record["seeds_to_decide"] - record["seeds"]) * float(record["passes_a_seed"])


def _table(title: str, records: Sequence[Mapping[str, Any]]) -> Table:
    columns = [
        Column("a", "A"), Column("b", "B"), Column("task", "task"), Column("metric", "by"), Column("says", "verdict"),
        Column("seeds", "seeds", "right"), Column("needed", "seeds to decide", "right"),
        Column("passes", "data passes", "right"), Column("reason", "why undecided"),
    ]  # fmt: skip
    cells = [{**record, "needed": _needed(record), "passes": _passes(record)} for record in records if record["seeds"]]
    return Table(title, columns, cells, [NEEDED, PASSES], keys=3)


def _needed(record: Mapping[str, Any]) -> str:
    if record["decided"]:
        return "decided"
    return f"{record['seeds_to_decide']:,}" if record["seeds_to_decide"] else "-" if record["reason"] else "> 10,000"


def _passes(record: Mapping[str, Any]) -> str:
    return number(_more(record)) if record["seeds_to_decide"] and not record["decided"] else ""


def _counted(orderings: Sequence[Mapping[str, Any]]) -> Table:
    """How many orderings so many new seeds are expected to decide, and their data passes."""
    present = [record for record in orderings if record["seeds"]]
    columns = [Column(name, name, "right") for name in ("seeds", "orderings decided", "data passes")]
    a_seed = sum(record["passes_a_seed"] for record in present)
    cells = [
        {
            "seeds": count,
            "orderings decided": f"{sum(record[f'decided_by_{count}'] for record in present):.1f} of {len(present)}",
            "data passes": number(count * a_seed),
        }
        for count in COUNTS
        if present
    ]
    return Table("Orderings decided by so many new seeds", columns, cells, [CHANCE, ALL_PASSES])
