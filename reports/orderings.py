"""Published orderings of samplers, and the verdicts of our runs on them; `orderings.toml` has the data."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.reports import Comparison, PairOutcome, Term, judge, refusal, terms
from reports.across import TaskField

FILE = Path(__file__).with_name("orderings.toml")


class OrderingVerdict(StrEnum):
    """What our runs say of a published ordering. Every row has tuned or default settings of ours: RULES.md 5."""

    HOLDS = "holds at our settings"
    FAILS = "fails at our settings"
    EQUIVALENT = "equivalent at our settings"
    UNDECIDED = "undecided"
    REFUSED = "refused"
    NOT_RUN = "not run"


_OF_OUTCOME = {
    PairOutcome.BETTER: OrderingVerdict.HOLDS,
    PairOutcome.WORSE: OrderingVerdict.FAILS,
    PairOutcome.EQUIVALENT: OrderingVerdict.EQUIVALENT,
    PairOutcome.UNDECIDED: OrderingVerdict.UNDECIDED,
}


@dataclass(frozen=True)
class Ordering:
    """A paper's statement that one method is better than another on a task. An empty `metric` means the ranking one.

    differs  the terms in which the methods' rows may differ; rows that differ in another one are not compared
    """

    statement: str
    citation: str
    better: str
    worse: str
    task: str
    metric: str = ""
    notes: str = ""
    differs: tuple[Term, ...] = ()


@dataclass(frozen=True)
class JudgedOrdering:
    """An ordering beside our runs.

    `comparison` is A = better against B = worse, or None if one of them was not run. `reason` says why there is no
    verdict.
    """

    ordering: Ordering
    metric: str
    comparison: Comparison | None
    verdict: OrderingVerdict
    reason: str


def load_orderings(file: Path = FILE) -> list[Ordering]:
    """Return all orderings of a file, one for each task and pair."""
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    return [
        Ordering(
            **{name: one[name] for name in ("statement", "citation", "metric", "notes") if name in one},
            better=better,
            worse=worse,
            task=task,
            differs=tuple(terms(one.get("differs", ()))),
        )
        for one in document["ordering"]
        for better, worse, task in itertools.product(one["better"], one["worse"], one["tasks"])
    ]


def judge_orderings(orderings: Sequence[Ordering], fields: Sequence[TaskField]) -> list[JudgedOrdering]:
    """Return the verdicts, paired by seed. The family is all orderings, those that were not run included."""
    by_task = {field.task: field for field in fields}
    compared = [_compared(one, by_task.get(one.task)) for one in orderings]
    judged = iter(judge([one.comparison for one in compared if one.comparison is not None], len(orderings)))
    return [one if one.comparison is None else _verdict(one, next(judged)) for one in compared]


def _compared(ordering: Ordering, field: TaskField | None) -> JudgedOrdering:
    """Return an ordering with its comparison, or with the reason if there is none."""

    def not_run(reason: str) -> JudgedOrdering:
        return JudgedOrdering(ordering, metric, None, OrderingVerdict.NOT_RUN, reason)

    metric = ordering.metric or (field.metric if field is not None else "")
    if field is None:
        return not_run(f"no field of {ordering.task} with two methods")
    if absent := [name for name in (ordering.better, ordering.worse) if name not in field.rows]:
        return not_run("; ".join(f"{name}: {field.missing.get(name, 'no runs')}" for name in absent))
    if why := refusal(field.rows[ordering.better], field.rows[ordering.worse], ordering.differs):
        return JudgedOrdering(ordering, metric, None, OrderingVerdict.REFUSED, why)
    comparison = field.score.compare(field.rows[ordering.better], field.rows[ordering.worse], metric)
    if comparison is None:
        return not_run(f"no values of {metric}")
    return JudgedOrdering(ordering, metric, comparison, OrderingVerdict.UNDECIDED, "")


def _verdict(one: JudgedOrdering, judged: Comparison) -> JudgedOrdering:
    reason = judged.withheld or ("too few seeds" if judged.tested is None else "")
    return JudgedOrdering(one.ordering, one.metric, judged, _OF_OUTCOME[judged.outcome], reason)
