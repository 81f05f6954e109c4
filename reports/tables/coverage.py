"""The modes of a mixture that were found, with their masses and spreads."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from harness import Result
from harness.reports import FieldScore, Report, Request, Table, check_metric, number, score_fields
from reports.tables import wide

if TYPE_CHECKING:
    from harness.reports import Store

COVERAGE = "modes_covered"
BASELINE = "wasserstein2_baseline"
METRICS = (
    COVERAGE, wide.SPREAD, "mode_mass_tv", "share_within_r", "last_mode_first_visit", "wasserstein2", BASELINE,
)  # fmt: skip


class Coverage(Report):
    """Mode coverage on the tasks that measure it, with metrics that distinguish a sampler that finds modes from one
    that is too hot: spread within a mode, mass of the modes, share of draws near a centre, distance to exact draws.
    """

    name: ClassVar[str] = "coverage"

    def build(self, store: Store, request: Request) -> Result:
        scores = [score for score in score_fields(store, request) if COVERAGE in score.metrics]
        by = request.metric or COVERAGE
        check_metric(scores, by)
        records = [
            {**record, "spread": wide.spread(score, group), "ranked_by": metric == by}
            for score in scores
            for metric in [m for m in METRICS if m in score.metrics]
            for group in score.ordered(metric)
            if (record := score.record(group, metric))
        ]
        return Result(tables=[_table(score, by) for score in scores], records=records)


def _table(score: FieldScore, by: str) -> Table:
    measured = [metric for metric in METRICS if metric in score.metrics]
    beside = [metric for metric in (wide.SPREAD, "mode_mass_tv") if metric in measured and metric != by]
    headers = {metric: _header(score, metric) for metric in measured}
    return wide.build(score, by, beside, headers=headers)


def _header(score: FieldScore, metric: str) -> str:
    """Return the header of a metric, with the score of exact draws if it is known."""
    estimates = [e for group in score.groups if (e := score.estimate(group, metric))]
    exact = estimates[0].target if estimates else None
    if metric == "wasserstein2":
        base = [e.mean for group in score.groups if (e := score.estimate(group, BASELINE)) and e.mean is not None]
        exact = base[0] if base else None
    return wide.header(metric) + (f" (exact draws {number(exact)})" if exact is not None else "")
