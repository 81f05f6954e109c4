"""Who is best on each task, by the headline where a truth is known, and who cannot be ranked and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from harness.report import Records, Report, Request, Result, Table
from harness.scoring import FieldScore, Group, check_metric, number, score_fields, with_interval
from reports.tables import wide

if TYPE_CHECKING:
    from harness.store import Store

HEADLINE = "gradients_to_low_error"
COMPANIONS = (
    "mean_error", "variance_ratio", "temperature", wide.SPREAD, "mode_mass_tv",
    "test_error", "train_accuracy", "nll", "ece", "single_test_error", "disagreement", "sparsity",
)  # fmt: skip


class Leaderboard(Report):
    """One table a task, version, protocol, number of chains and budget.

    Where a truth is known the ranking is by gradients to low error: the data passes of a chain until the median over
    chains x seeds of the squared error of its averages of z and z^2, worst coordinate, is below 0.01 of their
    variance for good. Where no rankable method gets there, or chains x seeds are too few, it is by the task's primary
    metric, per data pass where that is an effective sample size. `request.metric` ranks by another one. All
    that is ranked has passed the gate.
    """

    name: ClassVar[str] = "leaderboard"
    summary: ClassVar[str] = "who is best on each task, and who cannot rank"

    def build(self, store: Store, request: Request) -> Result:
        scores = score_fields(store, request)
        if request.metric:
            check_metric(scores, request.metric)
        tables, ranked_by = [], []
        for score in scores:
            if is_size(score):
                score.derive(f"{score.primary}_per_pass", score.primary, "draws/data pass", wide.passes(score.primary))
            by = request.metric if request.metric in score.metrics else ranking_metric(score)
            tables.append(_table(score, by or score.primary))
            ranked_by.append(by)
        return Result(tables=tables, records=Records(lambda: _records(scores, ranked_by)))


def _records(scores: Sequence[FieldScore], ranked_by: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {**record, "ranked_by": record["metric"] == by}
        for score, by in zip(scores, ranked_by, strict=True)
        for record in score.records(score.metrics)
    ]


def ranking_metric(score: FieldScore) -> str:
    """The headline, if any method that may be ranked has a finite one; else the primary metric."""
    for group in score.groups:
        estimate = score.estimate(group, HEADLINE)
        ranked = score.standing(group, HEADLINE).status == "ranked"
        if ranked and estimate is not None and estimate.mean not in {None, float("inf")}:
            return HEADLINE
    return f"{score.primary}_per_pass" if is_size(score) else score.primary


def is_size(score: FieldScore) -> bool:
    """Whether the primary metric is an effective sample size, which a sampler can buy by longer steps."""
    estimates = (score.estimate(group, score.primary) for group in score.groups)
    return any(estimate is not None and estimate.unit == "draws" for estimate in estimates)


def _table(score: FieldScore, by: str) -> Table:
    columns: dict[str, wide.Cell] = {}
    notes: list[str] = []
    if HEADLINE in score.metrics:
        columns["gradients to low error"] = lambda group: _headline(score, group)
        columns["got there"] = lambda group: _share(score, group)
        columns["b2 at end"] = lambda group: _split(score, group)
        notes.append(
            "gradients to low error: data passes until the median over chains x seeds of b2, the squared error of a "
            "chain's averages of z and z^2 in the worst coordinate, is below 0.01 for good; bootstrap interval; got "
            "there: share of chains below 0.01 at the end; b2 at end: mean, as squared bias + variance"
        )
    own = dict.fromkeys([by, score.primary])
    for metric in [m for m in own if m and m != HEADLINE]:
        columns[wide.header(metric)] = wide.metric_cell(score, metric)
        columns |= wide.paper_columns(score, metric)
        notes += wide.paper_notes(score, metric)
    companions = [metric for metric in COMPANIONS if metric in score.metrics and metric not in own]
    columns |= {wide.header(metric): wide.metric_cell(score, metric) for metric in companions}
    columns |= wide.cost_columns(score, score.primary)
    return wide.build(score, by, columns, notes)


def _headline(score: FieldScore, group: Group) -> str:
    limit = max((passes for passes in group.runs.numbers.passes if passes is not None), default=None)
    return with_interval(score.estimate(group, HEADLINE), limit)


def _share(score: FieldScore, group: Group) -> str:
    found = score.estimate(group, "low_error_share")
    return f"{found.mean:.0%}" if found is not None and found.mean is not None else "-"


def _split(score: FieldScore, group: Group) -> str:
    parts = [score.estimate(group, f"low_error_{part}") for part in ("bias2", "variance")]
    values = [part.mean if part is not None else None for part in parts]
    bias2, variance = values
    if bias2 is None:
        return "-"
    return "inf" if variance is None else f"{number(bias2 + variance)} = {number(bias2)} + {number(variance)}"
