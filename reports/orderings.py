"""Published orderings of samplers, and the verdicts of our runs on them; `orderings.toml` has the data."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.reports import Comparison, Term, judge, refusal, terms
from reports.across import TaskField

FILE = Path(__file__).with_name("orderings.toml")
VERDICTS = HOLDS, FAILS, UNDECIDED, NOT_RUN = "holds at our settings", "fails at our settings", "undecided", "not run"
_UNTESTED = Comparison("", 1, "", "min", None, p=1.0)


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
    verdict: str
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
    """Return the verdicts, paired by seed. Holm's family is all orderings: one that was not tested counts as p = 1.

    Every row has tuned or default settings of ours, so an ordering holds or fails "at our settings" (RULES.md 5).
    """
    by_task = {field.task: field for field in fields}
    comparisons = [_compared(one, by_task.get(one.task)) for one in orderings]
    tested = [comparison or _UNTESTED for _, comparison, _ in comparisons]
    judged = judge([c if c.p is not None else _UNTESTED for c in tested])
    return [
        _verdict(one, metric, compared, after, reason)
        for one, (metric, compared, reason), after in zip(orderings, comparisons, judged, strict=True)
    ]


def _compared(one: Ordering, field: TaskField | None) -> tuple[str, Comparison | None, str]:
    """Return the metric, the comparison, and the reason if there is none."""
    if field is None:
        return one.metric, None, f"no field of {one.task} with two methods"
    metric = one.metric or field.metric
    absent = [name for name in (one.better, one.worse) if name not in field.rows]
    if absent:
        return metric, None, "; ".join(f"{name}: {field.missing.get(name, 'no runs')}" for name in absent)
    if why := refusal(field.rows[one.better], field.rows[one.worse], one.differs):
        return metric, replace(_UNTESTED, metric=metric, p=None, withheld=why), ""
    compared = field.score.compare(field.rows[one.better], field.rows[one.worse], metric)
    return metric, compared, "" if compared else f"no values of {metric}"


def _verdict(one: Ordering, metric: str, compared: Comparison | None, after: Comparison, reason: str) -> JudgedOrdering:
    if compared is None:
        return JudgedOrdering(one, metric, None, NOT_RUN, reason)
    if compared.p is None:
        return JudgedOrdering(one, metric, compared, UNDECIDED, compared.withheld or "too few seeds")
    verdict = {"a": HOLDS, "b": FAILS, "": UNDECIDED}[after.better]
    return JudgedOrdering(one, metric, after, verdict, after.withheld)
