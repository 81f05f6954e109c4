"""What the results of many samplers on many tasks show: leaders, costs, failures, baselines, published orderings."""

from __future__ import annotations

import math
import statistics as statistics_of
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import Result, statistics
from harness.reports import ONE_DRAW, Comparison, Group, PairOutcome, Report, Request, Term, judge, refusal, typical
from harness.tasks import REFERENCES
from reports.across import TaskField, distinct, loss, protocol_fields, task_fields
from reports.figures.parts import seconds_a_pass
from reports.orderings import JudgedOrdering, OrderingVerdict, judge_orderings, load_orderings
from reports.tables.findings_tables import tables
from reports.tables.wide import COST, JOINT

if TYPE_CHECKING:
    from harness.reports import Store

PLAIN = "sgld"
"""The sampler that the best one is compared with."""
REFERENCE_SET = ("sgld", "sghmc", "psgld", "sgnht", "csgld", "hmc")
"""The samplers whose median a leader beats by `FACTOR`; `FEWEST_REFERENCES` of them decide a task."""
FEWEST_REFERENCES = 3
FACTOR = 1.5
"""Of joint errors; other metrics have their margin of equivalence, or no difference."""
COUNTED = {
    "tied": (statistics.Verdict.TIED,),
    "worse": (statistics.Verdict.WORSE,),
    "not_known": (statistics.Verdict.UNKNOWN, statistics.Verdict.TOO_FEW),
}
"""The verdicts whose rows are counted, by the field of a record."""
UNTESTED = Comparison("", 1, "", "min", None)


def reference_set() -> tuple[str, ...]:
    """Return the names of the reference samplers."""
    return REFERENCE_SET


class Findings(Report):
    """Facts of a whole field, computed from the store, each with the command that shows it.

    For each task: the leaders, the best value of the metric that ranks the task, by how much it is better than `sgld`
    and than the median sampler (a ratio of joint errors, a difference of other metrics), and the cheapest sampler that
    reaches low error. For each sampler: on how many of the tasks that have a leader it leads, and its worst joint error
    in units of the best. Then rows that diverged or have no rank, baselines, and published orderings of two samplers
    with the verdict of the paired comparison over seeds; the intervals of those that were declared together hold all at
    once, and a family none of which was run is not shown.

    A row leads if it is better than the median of `REFERENCE_SET` (of an even number the upper one) by `FACTOR`: if,
    at the level of the leaderboard, at least half of the set are worse by so much, of which one that diverged on all
    seeds counts as beaten. A joint error must also be below that of one exact draw. So a row does not lead because its
    interval is wide or because bad rows were added, and another row that is better does not matter. Of tasks with
    equal energies one counts (`reports.across.distinct`).

    Of a task the field with the most methods counts, of a method its tuned row, as in `reports.across`.
    """

    name: ClassVar[str] = "findings"

    def build(self, store: Store, request: Request) -> Result:
        fields = sorted(task_fields(store, request), key=lambda f: ([*REFERENCES].index(f.score.reference), f.task))
        if not fields:
            return Result()
        by_name = protocol_fields(store, request) | {field.task: field for field in fields}
        judged = judge_orderings(load_orderings(), by_name, request)
        run = {one.ordering.family for one in judged if one.verdict != OrderingVerdict.NOT_RUN}
        counted, copies = distinct(fields, request)
        leaders = {field.task: _leaders(field) for field in fields}
        records = [
            *({**_task(field, leaders[field.task]), "copy_of": copies.get(field.task)} for field in fields),
            *(_cheapest(field) for field in fields if field.score.reference == "truth"),
            *_samplers(counted, leaders),
            *(record for field in fields for record in _unranked(field)),
            *(record for field in fields for record in _baselines(field)),
            *(
                _ordering(one, by_name.get(one.ordering.task))
                for one in judged
                if one.ordering.family in run and _asked(one.ordering.task, request)
            ),
        ]
        return Result(tables(records), records)


def command(report: str, field: TaskField) -> str:
    """The command that shows a report of a field."""
    return f"bench report {report} --task {field.task}@{field.protocol}"


def _task(field: TaskField, leaders: Sequence[Group]) -> dict[str, Any]:
    score, by = field.score, field.metric
    ranked = _ranked(field)
    record: dict[str, Any] = {
        "finding": "task", "task": field.task, "reference": score.reference, "metric": by, "samplers": len(field.rows),
        "command": command("leaderboard", field),
    }  # fmt: skip
    if not ranked:
        return record
    first = ranked[0][0]
    best = score.estimate(first, by)
    values = [loss(field, group) for group in field.rows.values()]
    assert best is not None
    return {
        **record, **{name: sum(rank.verdict in verdicts for _, rank in ranked) for name, verdicts in COUNTED.items()},
        "leaders": [group.method for group in leaders], "leads_by": FACTOR, "best": first.method,
        "mean": best.mean, "low": best.low, "high": best.high,
        "against_sgld": _apart(field, loss(field, field.rows[PLAIN])) if PLAIN in field.rows else None,
        "against_median": _apart(field, float(np.median(values))),
        "passes": typical(first.done.numbers.passes), "seconds": first.seconds,
    }  # fmt: skip


def _cheapest(field: TaskField) -> dict[str, Any]:
    """The row with the fewest data passes to low error, and how many rows get there."""
    costs = {method: cost for method in field.rows if (cost := _cost(field, method)) is not None}
    record = {
        "finding": "cost", "task": field.task, "samplers": len(field.rows), "reached": len(costs),
        "sgld_passes": costs.get(PLAIN), "command": command("convergence", field),
    }  # fmt: skip
    if not costs:
        return record
    method = min(costs, key=lambda name: (costs[name], name))
    pace = seconds_a_pass(field.rows[method])
    there = None if pace is None else pace * costs[method]
    return {**record, "cheapest": method, "passes": costs[method], "seconds": there}


def _cost(field: TaskField, method: str) -> float | None:
    """Data passes of a chain to low error; None where the row does not get there."""
    group = field.rows[method]
    cost = None if group.diverged else field.score.estimate(group, COST)
    return cost.mean if cost is not None and cost.mean is not None and math.isfinite(cost.mean) else None


def _samplers(fields: Sequence[TaskField], leaders: Mapping[str, Sequence[Group]]) -> list[dict[str, Any]]:
    """A record for each method, those that lead most often first; `leaders` are those of each task."""
    records = []
    leading = {field.task: of_task for field in fields if (of_task := leaders[field.task])}
    for method in sorted({name for field in fields for name in field.rows}):
        with_row = [field for field in fields if method in field.rows]
        compared = {f.task: _apart(f, loss(f, f.rows[method])) for f in with_row if f.metric == JOINT}
        factors = {task: factor for task, factor in compared.items() if factor is not None}
        worst = max(factors, key=lambda task: (factors[task], task), default=None)
        decided = [field for field in with_row if field.task in leading]
        leads = [field.task for field in decided if field.rows[method] in leading[field.task]]
        tried = [field for field in with_row if field.score.reference == "truth"]
        records.append({
            "finding": "sampler", "method": method, "tasks": len(with_row), "decided": len(decided),
            "leads": len(leads), "leads_on": leads, "share": len(leads) / len(decided) if decided else 0.0,
            "worst": factors[worst] if worst else None, "worst_task": worst,
            "truths": len(tried), "low_error": sum(_cost(field, method) is not None for field in tried),
            "diverged_on": [field.task for field in with_row if field.rows[method].diverged],
            "command": f"bench report leaderboard --method {method}",
        })  # fmt: skip
    return sorted(records, key=lambda r: (-r["share"], r["worst"] if r["worst"] is not None else math.inf, r["method"]))


def _leaders(field: TaskField) -> list[Group]:
    """Return the rows that lead, best first; the docstring of `Findings` has the rule."""
    ranked = _ranked(field)
    references = [row for name, row in field.rows.items() if name in REFERENCE_SET]
    lost = [row for row in references if len(row.diverged) == len(row.runs)]
    if len(references) < FEWEST_REFERENCES:
        return []
    bar = statistics_of.median_high(loss(field, row) for row in references)

    def beats_median(group: Group) -> bool:
        rows = [row for row in references if row not in lost and row is not group and not refusal(group, row, [*Term])]
        compared = [one for row in rows if (one := field.score.compare(group, row, field.metric)) is not None]
        judged = judge(compared, math.comb(len(ranked), 2))
        return 2 * (len(lost) + sum(map(_is_beyond, judged))) >= len(references)

    good = [group for group, _ in ranked if loss(field, group) < min(bar, ONE_DRAW if field.metric == JOINT else bar)]
    return [group for group in good if beats_median(group)]


def _is_beyond(one: Comparison) -> bool:
    """Return whether A is better by the stated factor, or by the margin of the metric."""
    if one.outcome != PairOutcome.BETTER or one.nearer is None:
        return False
    if one.scale == "ratio":
        return max(one.nearer, 1 / one.nearer if one.nearer else math.inf) >= FACTOR
    return abs(one.nearer) >= (one.margin or 0.0)


def _ranked(field: TaskField) -> list[tuple[Group, statistics.Rank]]:
    """Return each ranked row, best first."""
    ordered = field.score.ordered(field.metric)
    return [(group, rank) for group in ordered if (rank := field.score.standing(group, field.metric).rank)]


def _unranked(field: TaskField) -> list[dict[str, Any]]:
    """Rows without a rank, except baselines."""
    records = [
        {
            "finding": "unranked", "task": field.task, "label": field.score.labels[group.key],
            "status": field.score.standing(group, field.metric).status, "command": command("leaderboard", field),
        }
        for group in field.score.groups
        if not group.baseline and field.score.standing(group, field.metric).rank is None
    ]  # fmt: skip
    return sorted(records, key=lambda record: record["label"])


def _baselines(field: TaskField) -> list[dict[str, Any]]:
    records = []
    for group in field.score.groups:
        estimate = field.score.estimate(group, field.metric) if group.baseline and not group.diverged else None
        if estimate is not None and estimate.mean is not None:
            records.append({
                "finding": "baseline", "task": field.task, "label": field.score.labels[group.key],
                "metric": field.metric, "mean": estimate.mean, "low": estimate.low, "high": estimate.high,
                "against_best": _apart(field, loss(field, group)), "command": command("leaderboard", field),
            })  # fmt: skip
    return sorted(records, key=lambda record: record["label"])


def _asked(task: str, request: Request) -> bool:
    return not request.tasks or task.partition("@")[0] in request.tasks


def _ordering(one: JudgedOrdering, field: TaskField | None) -> dict[str, Any]:
    ordering, compared = one.ordering, one.comparison
    task = f"{field.task}@{field.protocol}" if field else ordering.task
    return {
        "finding": "ordering", "statement": ordering.statement, "citation": ordering.citation,
        "better": ordering.better, "worse": ordering.worse, "task": ordering.task, "metric": one.metric,
        **(compared or UNTESTED).record(), "verdict": str(one.verdict), "reason": one.reason or None,
        "notes": ordering.notes or None, "command": f"bench report findings --task {task}" if compared else None,
        "family": ordering.family,
    }  # fmt: skip


def _apart(field: TaskField, value: float) -> float | None:
    """How much worse a loss is than the best: the ratio of joint errors, the difference of other metrics."""
    best = min((loss(field, group) for group in field.rows.values()), default=math.inf)
    if not math.isfinite(best):
        return None
    if field.metric != JOINT:
        return value - best
    return value / best if best > 0 else None
