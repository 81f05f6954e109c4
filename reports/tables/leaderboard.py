"""The ranking on each task, by the joint error if a truth is known, and the reasons why some rows are not ranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from harness import Result
from harness.reports import (
    FieldScore,
    Group,
    Records,
    Report,
    Request,
    Table,
    check_metric,
    number,
    score_fields,
    with_interval,
)
from reports.step_bias import Family, families_of, of_metric
from reports.tables import wide

if TYPE_CHECKING:
    from harness.reports import Store

BIAS = "estimated_bias"
NOTE = "Joint error: 1 is one exact draw, 0.01 a hundred"


class Leaderboard(Report):
    """One table for each task, version, protocol, number of chains and budget.

    If a truth is known the ranking is by the joint error at the end of the budget: b2, the mean over chains x seeds of
    the squared error of a chain's averages (of z, z^2, shares below quantiles), in units of their variance, in the
    worst direction. Every finished row has a rank by it. Beside it is the cost: data passes of a chain until the median
    of b2 is below 0.01 for good, with its own rank. Without a truth the ranking is by the task's primary metric, per
    data pass if that is an effective sample size; a row of which runs at smaller steps exist has an estimate of its
    bias by the step size (`step-bias`). `request.metric` ranks by another metric, behind the gate if a wrong law may
    inflate it.
    """

    name: ClassVar[str] = "leaderboard"

    def build(self, store: Store, request: Request) -> Result:
        scores = score_fields(store, request)
        if request.metric:
            check_metric(scores, request.metric)
        tables, ranked_by, families = [], [], families_of(store, request)
        for score in scores:
            if is_size(score):
                score.derive(f"{score.primary}_per_pass", score.primary, "draws/data pass", wide.passes(score.primary))
            by = request.metric if request.metric in score.metrics else ranking_metric(score)
            tables.append(_table(score, by or score.primary, families))
            ranked_by.append(by)
        return Result(tables=tables, records=Records(lambda: _records(scores, ranked_by, families)))


def _records(
    scores: Sequence[FieldScore], ranked_by: Sequence[str], families: Mapping[str, Family]
) -> list[dict[str, Any]]:
    return [
        {**record, "ranked_by": record["metric"] == by, **_bias(families.get(record["group"]), record["metric"])}
        for score, by in zip(scores, ranked_by, strict=True)
        for record in score.records(score.metrics)
    ]


def _bias(family: Family | None, metric: str) -> dict[str, float | None]:
    """Return the entries of a record for the bias by the step size, if it is known."""
    bias = of_metric(family, metric) if family else None
    return {BIAS: bias.bias, f"{BIAS}_low": bias.low, f"{BIAS}_high": bias.high} if bias else {}


def ranking_metric(score: FieldScore) -> str:
    """Return the joint error if a truth is known, or otherwise the primary metric."""
    if score.truth_known:
        return wide.JOINT
    return f"{score.primary}_per_pass" if is_size(score) else score.primary


def is_size(score: FieldScore) -> bool:
    """Return whether the primary metric is an effective sample size, which a sampler can raise by longer steps."""
    estimates = (score.estimate(group, score.primary) for group in score.groups)
    return any(estimate is not None and estimate.unit == "draws" for estimate in estimates)


def _table(score: FieldScore, by: str, families: Mapping[str, Family]) -> Table:
    special: dict[str, wide.Cell] = {}
    beside: list[str] = []
    if score.truth_known:
        special = {
            "joint_bias2": lambda group: _split(score, group),
            wide.FAILED: lambda group: _failed(score, group),
            wide.COST: lambda group: _cost(score, group),
            "low_error_share": lambda group: _share(score, group),
        }
    elif any(_bias(families.get(group.key), by) for group in score.groups):
        special, beside = {BIAS: lambda group: _bias_text(families.get(group.key), by)}, ["times_best", BIAS]
    headers = {"joint_bias2": "bias\N{SUPERSCRIPT TWO} + variance", "low_error_share": "reached it"}
    return wide.build(score, by, beside, special, headers, note=NOTE if by == wide.JOINT else "")


def _bias_text(family: Family | None, metric: str) -> str:
    bias = of_metric(family, metric) if family else None
    return "-" if bias is None else bias.text


def _cost(score: FieldScore, group: Group) -> str:
    limit = max((passes for passes in group.runs.numbers.passes if passes is not None), default=None)
    return with_interval(score.estimate(group, wide.COST), limit).partition(":")[0]


def _share(score: FieldScore, group: Group) -> str:
    estimate = score.estimate(group, "low_error_share")
    return f"{estimate.mean:.0%}" if estimate is not None and estimate.mean is not None else "-"


def _failed(score: FieldScore, group: Group) -> str:
    """Return the share of failed chains with its bound: "2 of 40 (up to 39 %)"."""
    share = score.estimate(group, wide.FAILED)
    if share is None or share.mean is None or share.high is None:
        return "-"
    chains = group.chains * len(share.by_seed)
    return f"{share.mean * chains:.0f} of {chains} (up to {share.high:.0%})".replace("%", " %")


def _split(score: FieldScore, group: Group) -> str:
    parts = [score.estimate(group, f"joint_{part}") for part in ("bias2", "variance")]
    bias2, variance = (part.mean if part is not None else None for part in parts)
    return "-" if bias2 is None or variance is None else f"{number(bias2)} + {number(variance)}"
