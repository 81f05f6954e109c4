"""The ranking on each task, by the joint error if a truth is known, and the reasons why some rows are not ranked."""

from __future__ import annotations

from collections.abc import Sequence
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
from harness.tasks import REFERENCES
from reports.tables import wide

if TYPE_CHECKING:
    from harness.reports import Store

JOINT, COST = "joint_error", "passes_to_low_error"
NOTE = (
    "joint error: b2 at the end, the squared error of a chain's averages of z, z^2 and, where exact draws exist, of "
    "the shares below quantiles, in units of their variance, averaged over chains x seeds, in the worst direction; "
    "bootstrap interval over seeds; data passes to low error: until the median of b2 over chains x seeds, "
    "each in its own worst direction, is below 0.01 for good; reached it: share of chains below 0.01 at the end"
)
FAILED = (
    "median of chains: of b2 of each chain in its own worst direction; failed chains: those with more than ten times "
    "that, and the exact 95 % bound of their share; the chains of a seed are not independent, so it is that of as many "
    "whole seeds"
)
FUNCTION_NOTE = (
    "joint error: b2 at the end, the squared error of a chain's averages of z, z^2 and of the shares below the 5, 50 "
    "and 95 % quantiles of each prediction, in units of their variance in the reference, averaged over chains x seeds, "
    "for the worst prediction; bootstrap interval over seeds"
)
IN_FUNCTION_SPACE = ("function_mean_error", "function_sd_error")
COMPANIONS = (
    *IN_FUNCTION_SPACE, "rmse", "coverage90", "calibration_error", "interval_width",
    *wide.JOINT_LAW, "temperature", wide.SPREAD, "mode_mass_tv",
    "test_error", "agreement", "total_variation", "train_accuracy", "nll", "ece", "single_test_error", "disagreement",
    "sparsity",
)  # fmt: skip


class Leaderboard(Report):
    """One table for each task, version, protocol, number of chains and budget.

    If a truth is known the ranking is by the joint error at the end of the budget: b2, the mean over chains x seeds of
    the squared error of a chain's averages (of z, z^2, shares below quantiles), in units of their variance, in the
    worst direction. Every finished row has a rank by it. Beside it is the cost: data passes of a chain until the median
    of b2 is below 0.01 for good, with its own rank. Without a truth the ranking is by the task's primary metric, per
    data pass if that is an effective sample size. `request.metric` ranks by another metric, behind the gate if a wrong
    law may inflate it.
    """

    name: ClassVar[str] = "leaderboard"

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
    """Return the joint error if a truth is known, or otherwise the primary metric."""
    if score.truth_known:
        return JOINT
    return f"{score.primary}_per_pass" if is_size(score) else score.primary


def is_size(score: FieldScore) -> bool:
    """Return whether the primary metric is an effective sample size, which a sampler can raise by longer steps."""
    estimates = (score.estimate(group, score.primary) for group in score.groups)
    return any(estimate is not None and estimate.unit == "draws" for estimate in estimates)


def _table(score: FieldScore, by: str) -> Table:
    columns: dict[str, wide.Cell] = {}
    notes: list[str] = []
    if score.truth_known:
        columns |= {
            "joint error": lambda group: _record(with_interval(score.estimate(group, JOINT))),
            "bias\N{SUPERSCRIPT TWO} + variance": lambda group: _split(score, group),
            "median of chains": lambda group: _record(with_interval(score.estimate(group, "median_error"))),
            "failed chains": lambda group: _failed(score, group),
        }
        notes.append(FAILED)
        notes.append(NOTE if score.reference == "truth" else FUNCTION_NOTE)
    if score.reference == "truth":
        columns |= {
            "data passes to low error": lambda group: _cost(score, group),
            "rank by data passes": wide.rank_cell(score, COST),
            "reached it": lambda group: _share(score, group),
        }
    notes.append(f"reference: {score.reference} ({REFERENCES[score.reference]})")
    ranking = dict.fromkeys([by, score.primary])
    columns |= wide.metric_columns(score, [m for m in ranking if m and m not in (JOINT, COST)])
    companions = [metric for metric in COMPANIONS if metric in score.metrics and metric not in ranking]
    if score.reference != "function space":
        companions = [metric for metric in companions if metric not in IN_FUNCTION_SPACE]
    columns |= wide.metric_columns(score, companions)
    columns |= wide.cost_columns(score, score.primary)
    return wide.build(score, by, columns, notes)


def _cost(score: FieldScore, group: Group) -> str:
    limit = max((passes for passes in group.runs.numbers.passes if passes is not None), default=None)
    return _record(with_interval(score.estimate(group, COST), limit))


def _record(text: str) -> str:
    """Return the reason why there is no number, without the remedy."""
    return text.partition(":")[0]


def _share(score: FieldScore, group: Group) -> str:
    estimate = score.estimate(group, "low_error_share")
    return f"{estimate.mean:.0%}" if estimate is not None and estimate.mean is not None else "-"


def _failed(score: FieldScore, group: Group) -> str:
    """Return the share of failed chains with its bound: "2 of 40 (up to 39 %)"."""
    share = score.estimate(group, "failed_chains")
    if share is None or share.mean is None or share.high is None:
        return "-"
    chains = group.chains * len(share.by_seed)
    return f"{share.mean * chains:.0f} of {chains} (up to {share.high:.0%})".replace("%", " %")


def _split(score: FieldScore, group: Group) -> str:
    parts = [score.estimate(group, f"joint_{part}") for part in ("bias2", "variance")]
    bias2, variance = (part.mean if part is not None else None for part in parts)
    return "-" if bias2 is None or variance is None else f"{number(bias2)} + {number(variance)}"
