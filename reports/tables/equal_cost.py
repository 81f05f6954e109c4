"""One long chain compared with several shorter ones at the same number of gradients."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from harness import Result
from harness.reports import (
    Column,
    Comparison,
    FieldScore,
    Group,
    Report,
    Request,
    Table,
    check_metric,
    judge,
    labels,
    number,
    refusal,
    score_fields,
    typical,
    with_interval,
)

if TYPE_CHECKING:
    from harness.reports import Store

NEAR = 0.02
"""Total costs that differ by less than this share are equal: a sampler's `init` and rounded-up cycles cost a little."""
BESIDE = ("nll",)
OF_LENGTH = {"run.steps", "run.burn_in", "run.thin"}


class EqualCost(Report):
    """Rows of one task, version, protocol and setting of the task by their total cost,

        total = chains x data passes of a chain,

    whatever the number of chains and the budget: the only report that compares several budgets. Rows with the same
    total (to 2 %) are compared with the first of them, the one with the fewest chains: the difference of the primary
    metric, or of `request.metric`, paired by seed; all intervals of the table hold at once in 95 % of tables.
    Tasks and settings for which all rows have the same number of chains are left out.

    The total is the work that a machine does. Chains that run at the same time finish sooner.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, table 2, whose
    totals are 800 (4 chains of 200 epochs, with and without cycles), 400 (4 of 100) and 200 (one cyclical chain).
    """

    name: ClassVar[str] = "equal-cost"

    def build(self, store: Store, request: Request) -> Result:
        scores = score_fields(store, request)
        if request.metric:
            check_metric(scores, request.metric)
        tables: list[Table] = []
        records: list[dict[str, Any]] = []
        notes = [
            f"{score.title}: {score.labels[group.key]} has no cost, no run of it came to its end"
            for score in scores
            for group in score.groups
            if not group.done
        ]
        for title, rows in _places(scores, request.metric).items():
            if len({row.group.chains for row in rows}) < 2:
                notes += [f"{title}: all runs have the same number of chains"] if request.tasks else []
                continue
            tables.append(_table(title, rows))
            records += [record for row in rows for record in row.records()]
        return Result(tables, records, notes=notes)


@dataclass(frozen=True, eq=False)
class CostRow:
    """A group, its total cost, the total of its class, and its comparison with the first row of that class.

    `refused` says why the two are not compared; "" if they are.
    """

    label: str
    score: FieldScore
    group: Group
    metrics: Sequence[str]
    total: float
    cost: float = 0.0
    against: str = ""
    comparison: Comparison | None = None
    refused: str = ""

    def records(self) -> list[dict[str, Any]]:
        """Return flat records, one per metric; the first has the comparison."""
        records = []
        for metric in self.metrics:
            record = self.score.record(self.group, metric)
            first = self.comparison if metric == self.metrics[0] else None
            if record is not None:
                records.append({
                    **record, "label": self.label, "total_passes": self.total, "cost_class": self.cost,
                    "against": self.against or None, "difference": first and first.effect,
                    "difference_low": first and first.low, "difference_high": first and first.high,
                    "p_adjusted": first and first.adjusted, "outcome": first and str(first.outcome),
                    "comparison": first and _words(first),
                })  # fmt: skip
        return records


def _places(scores: Sequence[FieldScore], metric: str | None) -> dict[str, list[CostRow]]:
    """Return the rows of each task, version, protocol and setting of the task, by total and then chains."""
    by_title: dict[str, list[tuple[FieldScore, Group]]] = {}
    for score in scores:
        title = score.title.rpartition(": ")[0]  # without budget, steps and chains
        by_title.setdefault(title, []).extend((score, group) for group in score.groups)
    return {title: _judged(_classed(_rows(members, metric))) for title, members in by_title.items()}


def _rows(members: Sequence[tuple[FieldScore, Group]], metric: str | None) -> list[CostRow]:
    bare = [replace(g, settings={n: v for n, v in g.settings.items() if n not in OF_LENGTH}) for _, g in members]
    names = labels(bare)
    rows = []
    for score, group in members:
        passes = typical(group.done.numbers.passes)
        wanted = (metric,) if metric else (score.primary, *BESIDE)
        metrics = [name for name in dict.fromkeys(wanted) if name in score.metrics]
        if passes is not None and metrics:
            rows.append(CostRow(names[group.key], score, group, metrics, group.chains * passes))
    return rows


def _classed(rows: Sequence[CostRow]) -> list[CostRow]:
    """Return the rows in order, each with the total of its class, which is that of the cheapest row in it."""
    classed: list[CostRow] = []
    for row in sorted(rows, key=lambda row: row.total):
        same = classed and row.total <= (1 + NEAR) * classed[-1].cost
        classed.append(replace(row, cost=classed[-1].cost if same else row.total))
    return sorted(classed, key=lambda row: (row.cost, row.group.chains, row.label, row.group.key))


def _judged(rows: Sequence[CostRow]) -> list[CostRow]:
    compared = []
    for _, members in itertools.groupby(rows, key=lambda row: row.cost):
        first, *others = members
        words = f"{first.label}, {first.group.chains} x"
        compared.append(first)
        for row in others:
            refused = refusal(row.group, first.group)
            comparison = None if refused else row.score.compare(row.group, first.group, row.metrics[0], first.score)
            compared.append(replace(row, against=words, comparison=comparison, refused=refused))
    verdicts = iter(judge([row.comparison for row in compared if row.comparison is not None]))
    return [row if row.comparison is None else replace(row, comparison=next(verdicts)) for row in compared]


def _words(c: Comparison) -> str:
    if c.effect is None:
        return c.withheld or "-"
    ends = "" if c.low is None or c.high is None else f" [{number(c.low)}, {number(c.high)}]"
    return f"{number(c.effect)}{ends} {c.outcome}" + (f" ({c.withheld})" if c.withheld else "")


def _table(title: str, rows: Sequence[CostRow]) -> Table:
    names = list(dict.fromkeys(metric for row in rows for metric in row.metrics))
    fixed = {"total": "total passes", "method": "method", "chains": "chains", "passes": "passes a chain"}
    fixed |= {"seeds": "seeds", "status": "status"}
    columns = [Column(key, words, "left" if key in {"method", "status"} else "right") for key, words in fixed.items()]
    columns += [Column(name, name.replace("_", " "), "right") for name in names]
    columns.append(Column("against", "against the first of this total"))
    shown: list[Mapping[str, Any]] = [
        {
            "total": number(row.total), "method": row.label, "chains": row.group.chains,
            "passes": number(row.total / row.group.chains), "seeds": len(row.group.runs),
            "status": row.score.standing(row.group, row.metrics[0]).short,
            **{name: with_interval(row.score.estimate(row.group, name)) for name in names},
            "against": _words(row.comparison) if row.comparison else row.refused and f"not compared: {row.refused}",
        }
        for row in rows
    ]  # fmt: skip
    note = "total passes: chains x data passes of a chain; against: this row less the first of its total, by seed"
    failures = dict.fromkeys(line for row in rows for line in row.score.failures())
    return Table(title, columns, shown, [note, *failures], keys=3)
