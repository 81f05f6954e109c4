"""Effective sample sizes (the paper's, bulk and tail, and from the errors), beside the bias that can inflate them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from harness import Result
from harness.reports import FieldScore, Group, Report, Request, Table, check_metric, score_fields, with_interval
from reports.tables import wide

if TYPE_CHECKING:
    from harness.reports import Store

PAPER = ("paper_ess_median", "paper_ess_mean")
ESS = (*PAPER, "ess_mse", *wide.POOLED)
BESIDE = (*wide.JOINT_LAW, "mean_error", "variance_ratio", "temperature", "temperature_min", "temperature_max", "rhat")


class EffectiveSize(Report):
    """ESS in draws, per data pass (a gradient, if each uses all the data) and per second of sampling.

    The paper's ESS and ESS_mse are of one chain, bulk and tail ESS of all chains of a run; the costs that divide them
    count the chains accordingly. The ranking is by the paper's median ESS per data pass, behind the gate: a chain
    frozen at the mean has the largest possible ESS.
    """

    name: ClassVar[str] = "ess"

    def build(self, store: Store, request: Request) -> Result:
        scores = [score for score in score_fields(store, request) if any(m in score.metrics for m in ESS)]
        for score in scores:
            for metric in ESS:
                score.derive(f"{metric}_per_pass", metric, "draws/data pass", wide.passes(metric))
                score.derive(f"{metric}_per_second", metric, "draws/s", _seconds(metric))
        if request.metric:
            check_metric(scores, request.metric)
        tables, records = [], []
        for score in scores:
            by = request.metric if request.metric in score.metrics else _ranking(score)
            tables.append(_table(score, by or score.primary))
            names = [m for m in score.metrics if m.startswith(ESS) or m in BESIDE]
            records += [{**record, "ranked_by": record["metric"] == by} for record in score.records(names)]
        return Result(tables=tables, records=records)


def _seconds(metric: str) -> wide.RunCosts:
    def cost(group: Group) -> list[float | None]:
        chains = 1 if metric in wide.POOLED else group.chains
        return [group.seconds and group.seconds / chains] * len(group.done)

    return cost


def _ranking(score: FieldScore) -> str:
    return next(f"{metric}_per_pass" for metric in ESS if metric in score.metrics)


def _table(score: FieldScore, by: str) -> Table:
    sizes = {metric: _size(score, metric) for metric in ESS if metric in score.metrics}
    beside = [metric for metric in list(sizes)[:1] if metric != by]
    return wide.build(score, by, beside, sizes)


def _size(score: FieldScore, metric: str) -> wide.Cell:
    """Return the cell of a sample size; it says so if the paper's ESS equals the number of draws, its maximum."""

    def cell(group: Group) -> str:
        estimate = score.estimate(group, metric)
        text = with_interval(estimate)
        draws = [kept for kept in group.done.numbers.draws_kept if kept is not None]
        if metric not in PAPER or estimate is None or not estimate.by_seed or not draws:
            return text
        full = [value >= min(draws) for value in estimate.by_seed.values()]
        if all(full):
            return f">= {min(draws):,}"
        return f"{text} ({sum(full)} of {len(full)} at {min(draws):,})" if any(full) else text

    return cell
