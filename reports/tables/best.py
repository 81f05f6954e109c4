"""Which method is best on each task, by how much, and what is undecided: in one sentence and a short table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from harness import BenchError, Result, statistics
from harness.reports import Column, FieldScore, Group, Request, Table, judge, number, refusal, with_interval
from reports.figures.curves import Curves
from reports.figures.parts import FieldReport, record
from reports.tables import wide
from reports.tables.leaderboard import ranking_metric

if TYPE_CHECKING:
    from harness.reports import Comparison

LEFT_OUT = re.compile("single_|last[0-9]|lppd|aurc|selective|aupr|fpr95|auroc_maxprob|entropy|low_entropy|disagree")
"""Metrics that say what others in the table say."""
SAID = {
    statistics.Verdict.WORSE: "better than",
    statistics.Verdict.TIED: "equivalent to",
    statistics.Verdict.UNKNOWN: "undecided against",
    statistics.Verdict.TOO_FEW: "with too few seeds for a verdict against",
}


class Best(FieldReport):
    """A sentence and a table for each field (task, protocol, chains, budget): the verdicts of the leaderboard in words.

    The row with the best value of the ranking metric is compared with each other ranked row, paired by seed, in
    intervals that all hold at once. The table has the step size h, and the learning rate on the mean loss: h N for
    samplers that multiply the gradient by h, and h for those that divide it by its size. A prior precision is N times
    the weight decay. The figure shows errors against data passes.
    """

    name: ClassVar[str] = "best"

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        by = request.metric or ranking_metric(score)
        said = sentence(score, by)
        metrics = [by, *(metric for metric in score.metrics if metric != by and not LEFT_OUT.match(metric))]
        groups = score.ordered(by)
        records = [{**_record(score, request, group, by, metrics), "sentence": said} for group in groups]
        cells = [
            {**row, **{f"{metric}_shown": with_interval(score.estimate(group, metric)) for metric in metrics}}
            for row, group in zip(records, groups, strict=True)
        ]
        main, *others = (Column(m, wide.header(m), "right", shown=f"{m}_shown") for m in metrics)
        columns = [
            Column("label", "method"), Column("verdict", "verdict"), main,
            Column("passes", "data passes", "right", number), Column("h", "h", "right", ".3g"),
            Column("learning_rate", "learning rate", "right", ".3g"), Column("chosen_by", "settings"),
        ]  # fmt: skip
        notes = [said, *_priors(records), *score.failures()]
        return Result(
            [Table(score.title, columns, cells, notes, more=others)],
            records,
            Curves().of_field(score, request, name).figures,
        )


def sentence(score: FieldScore, metric: str) -> str:
    """Return which row is best by a metric, by how much, and what is undecided."""
    ranked = [group for group in score.ordered(metric) if score.standing(group, metric).rank]
    besides = [group for group in score.groups if group not in ranked]
    unranked = "; ".join(f"{_value(score, group, metric)} ({score.standing(group, metric).short})" for group in besides)
    if not ranked:
        return f"No row is ranked by {wide.header(metric)}: {unranked}."
    first, *others = ranked
    compared = [one for other in others if (one := score.compare(first, other, metric)) is not None]
    said: dict[str, list[str]] = {text: [] for text in SAID.values()}
    for other, one in zip(others, judge(compared, len(ranked) * (len(ranked) - 1) // 2), strict=True):
        rank = score.standing(other, metric).rank
        remarks = [f"{rank.seeds:,} seeds would decide"] if rank and rank.seeds else []
        remarks += filter(None, [refusal(first, other)])
        text = f"{score.labels[other.key]}{_effect(one)}" + (f" ({'; '.join(remarks)})" if remarks else "")
        if rank and rank.verdict in SAID:
            said[SAID[rank.verdict]].append(text)
    parts = [_value(score, first, metric), *(f"{text} {', '.join(rows)}" for text, rows in said.items() if rows)]
    return f"Best by {wide.header(metric)}: {'; '.join(parts)}." + (f" Not ranked: {unranked}." if unranked else "")


def _value(score: FieldScore, group: Group, metric: str) -> str:
    return f"{score.labels[group.key]}, {with_interval(score.estimate(group, metric))}"


def _effect(one: Comparison) -> str:
    """Return by how much the best row is better at least; "" if that is not known."""
    if one.nearer is None:
        return ""
    if one.scale == "ratio":
        return f" by at least a factor {number(max(one.nearer, 1 / one.nearer))}"
    return f" by at least {number(abs(one.nearer))} {one.unit}".rstrip()


def _record(score: FieldScore, request: Request, group: Group, by: str, metrics: Sequence[str]) -> dict[str, Any]:
    standing, settings = score.standing(group, by), group.settings
    h, prior = settings.get("schedule.step_size"), settings.get("task.prior_precision")
    terms, unit = _scale(request, group)
    estimates = {metric: score.estimate(group, metric) for metric in metrics}
    return record(
        "", group, label=score.labels[group.key], chosen_by=wide.chosen_by(group),
        verdict=str(standing.rank.verdict) if standing.rank else standing.short,
        **{metric: estimate and estimate.mean for metric, estimate in estimates.items()},
        passes=max((p for p in group.done.numbers.passes if p is not None), default=None),
        h=h, learning_rate=h * terms ** -unit if h is not None and terms else None,
        prior_precision=prior, weight_decay=prior / terms if prior is not None and terms else None, terms=terms,
    )  # fmt: skip


def _scale(request: Request, group: Group) -> tuple[int | None, int]:
    """Return N and the power of U in the unit of h; (None, 0) if the plugins of the row are not loaded."""
    of_task = {n.removeprefix("task."): v for n, v in group.settings.items() if n.startswith("task.")}
    try:
        terms = request.plugin("tasks", group.task, **of_task).terms()
        return int(terms), int(request.plugin("samplers", str(group.settings["sampler"])).step_unit)
    except (BenchError, AttributeError):
        return None, 0


def _priors(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return a note on each prior precision as a weight decay."""
    known = {(row["prior_precision"], row["weight_decay"], row["terms"]) for row in records if row["weight_decay"]}
    return [
        f"prior precision {p:g} = weight decay {decay:.3g} x N, N = {terms:,} rows" for p, decay, terms in sorted(known)
    ]
