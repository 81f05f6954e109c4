"""A night as a report: changes, failures, left-out runs and times. Every comparison is a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness import Result
from harness.reports import Column, Comparison, Table, number
from plugins.nights.regression.changes import WORSE, Change, flat
from plugins.nights.regression.night import Night

REPORTED = (*WORSE, "unfinished", "better", "skipped", "new", "dropped")
"""The outcomes that are shown, in this order; the records contain all outcomes."""


def result(
    last: Night | None,
    tonight: Night,
    changed: Sequence[Change],
    failures: Sequence[Mapping[str, Any]],
    unequal: Sequence[Mapping[str, Any]],
    skipped: Sequence[Mapping[str, Any]],
) -> Result:
    """Return the night's tables and records. `failures`, `unequal` and `skipped` are rows by column."""
    tables = [_changed(changed)] if last is not None and told(changed) else []
    if failures:
        columns = [Column(key, key, "right" if key in {"seed", "step"} else "left") for key in FAILURE]
        tables.append(Table("Runs without a result", columns, failures))
    if unequal:
        columns = [Column(key, key, "right" if key == "seed" else "left") for key in UNEQUAL]
        tables.append(Table("Code that is declared equal and gives other numbers", columns, unequal))
    if skipped:
        tables.append(Table("Left out", [Column(key, key) for key in SKIPPED], skipped))
    notes = [_counts(changed)] if last is not None else []
    return Result(tables=[*tables, _times(last, tonight)], records=[flat(change) for change in changed], notes=notes)


FAILURE = ("row", "seed", "status", "step", "reason", "attempt")
UNEQUAL = ("row", "seed", "reason", "attempt")
SKIPPED = ("row", "run", "runs", "reason")


def told(changed: Sequence[Change]) -> list[Change]:
    """Return the changes that are shown, the worst first."""
    return sorted(
        (c for c in changed if c.outcome in REPORTED), key=lambda c: (REPORTED.index(c.outcome), c.row, c.metric)
    )


def sentence(change: Change, ended: str = "") -> str:
    """Return a change as one line: "sgld on mixture5@...: wasserstein2 1.2 -> 3.4, x2.8 [2.2, 3.6], p 0.001".

    If the outcome `ended` of an earlier night has ended, the line says that.
    """
    comparison = change.comparison
    outcome = f"no longer {ended}" if ended else change.outcome
    if comparison is None:
        what = f"{change.metric} is {outcome}" if change.metric else outcome
        return f"{change.row}: {what}: {change.reason}" if change.reason else f"{change.row}: {what}"
    p = f", p {_p(comparison)} for all" if comparison.adjusted is not None else ""
    values = f"{_number(comparison.b)} -> {_number(comparison.a)}"
    also = f"; {change.reason}" if change.reason else ""
    return f"{change.row}: {change.metric} is {outcome}: {values}, {_effect(comparison)}{p}{also}"


def _changed(changed: Sequence[Change]) -> Table:
    columns = [
        Column("row", "row"), Column("metric", "metric"), Column("outcome", "outcome"),
        Column("reference", "reference", "right"), Column("tonight", "tonight", "right"),
        Column("effect", "tonight / reference or - reference", "right"), Column("p", "p x all", "right"),
        Column("seeds", "seeds", "right"), Column("reason", "reason"),
    ]  # fmt: skip
    apart = [change for change in changed if change.outcome == "not compared"]
    notes = [
        "x2: twice as large, or twice as far from the best value if the metric has one",
        "the reference is the last accepted night: the first one, or that of `--accept`; a row that is new joins it",
        *(f"{change.row}{', ' if change.metric else ''}{change.metric}: {change.reason}" for change in apart[:20]),
    ]
    return Table("Against the reference", columns, [line(change) for change in told(changed)], notes)


def _counts(changed: Sequence[Change]) -> str:
    tested = sum(change.comparison is not None and change.comparison.p is not None for change in changed)
    same, apart, unclear = (
        sum(c.outcome == outcome for c in changed) for outcome in ("same", "not compared", "unclear")
    )
    return (
        f"values compared by row and metric: {same} the same, {apart} not comparable, {tested} different and tested, "
        f"{unclear} undecided; paired by seed, t intervals of two families (the main metric of each row; all others), "
        "each of which holds at once in 95 % of nights; p x all: p times how many of its family were tested"
    )


def line(change: Change) -> dict[str, Any]:
    """Return a change as a row of a table."""
    comparison = change.comparison
    line = {"row": change.row, "metric": change.metric, "outcome": change.outcome, "reason": change.reason}
    if comparison is None:
        return line
    values = {"reference": _number(comparison.b), "tonight": _number(comparison.a), "effect": _effect(comparison)}
    return {**line, **values, "p": _p(comparison), "seeds": len(comparison.pairs)}


def _effect(comparison: Comparison) -> str:
    """Return how much larger tonight's value is: "x2.8 [2.2, 3.6]" by ratio, "+0.5 [0.1, 0.9]" by difference."""
    if comparison.effect is None:
        return ""
    ends = (
        f" [{_number(comparison.low)}, {_number(comparison.high)}]"
        if comparison.low is not None and comparison.low != comparison.high
        else ""
    )
    far = f" as far from {number(comparison.target)}" if comparison.target is not None else ""
    if comparison.scale == "ratio":
        return f"x{number(comparison.effect)}{ends}{far}"
    return (
        f"{'+' if comparison.effect > 0 else ''}{number(comparison.effect)}{ends}{far.replace('as far', 'further', 1)}"
    )


def _number(value: float | None) -> str:
    return "" if value is None else number(value)


def _p(comparison: Comparison) -> str:
    return "" if comparison.adjusted is None else f"{comparison.adjusted:.2g}"


def _times(last: Night | None, tonight: Night) -> Table:
    before = last.rows if last else {}
    rows = []
    for name, row in tonight.rows.items():
        then = before[name].seconds if name in before else None
        share = row.seconds / then if row.seconds and then else None
        lost = len(row.lost())
        unfinished = len(row.keys) - len(row.statuses)
        rows.append({
            "row": name, "seeds": len(row.keys), "lost": lost or None, "open": unfinished or None,
            "last": then, "tonight": row.seconds, "share": share,
        })  # fmt: skip
    columns = [
        Column("row", "row"), Column("seeds", "seeds", "right"), Column("lost", "diverged or failed", "right"),
        Column("open", "not finished", "right"), Column("last", "seconds a run, last night", "right", number),
        Column("tonight", "tonight", "right", number), Column("share", "ratio", "right", ".2f"),
    ]  # fmt: skip
    notes = ["seconds of sampling, median over seeds; a finished run is not timed again"]
    return Table("Rows", columns, rows, notes)
