"""The effect of the number of cycles and the share of exploration: one cell for each pair (M, beta)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from harness import Result
from harness.reports import Column, FieldScore, Group, Request, Table, with_interval
from reports.figures.parts import FieldReport, families

CYCLES, BETA = "schedule.cycles", "schedule.beta"
BESIDE = ("nll",)


class CycleBeta(FieldReport):
    """A table for each family of groups that differ in schedule.cycles and schedule.beta only.

    It has a row for each M and a column for each beta, with the primary metric, and the negative log-likelihood if
    there is one, or `request.metric`, as mean and 95 % t interval over seeds.

    All cells have the same budget: more cycles are shorter ones, and with a larger beta fewer steps sample, so the
    number of draws differs from cell to cell. A cell with a diverged or failed seed says so.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, appendix.
    """

    name: ClassVar[str] = "cycle-beta"

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        kin = families(score.groups, CYCLES, BETA)
        wanted = (request.metric,) if request.metric else (score.primary, *BESIDE)
        metrics = [metric for metric in dict.fromkeys(wanted) if metric in score.metrics]
        note = (
            f"{score.title}: no groups that differ in {CYCLES} and {BETA} alone; "
            f"bench run --sweep {CYCLES}=2,4,8 --sweep {BETA}=0.5,0.8 makes some"
        )
        records = [
            {"family": label, "cycles": cycles, "beta": beta, **record}
            for label, groups in kin.items()
            for metric in metrics
            for (cycles, beta), group in sorted((_cycles_and_beta(group), group) for group in groups)
            if (record := score.record(group, metric)) is not None
        ]
        tables = [_table(score, label, groups, metric) for label, groups in kin.items() for metric in metrics]
        return Result(tables, records, notes=[note] if request.tasks and not kin else [])


def _cycles_and_beta(group: Group) -> tuple[int, float]:
    return int(group.settings[CYCLES]), float(group.settings[BETA])


def _table(score: FieldScore, label: str, groups: Sequence[Group], metric: str) -> Table:
    places = {_cycles_and_beta(group): group for group in groups}
    betas = sorted({beta for _, beta in places})
    columns = [Column("M", "M", "right"), *(Column(f"{beta:g}", f"beta = {beta:g}", "right") for beta in betas)]
    rows = [
        {"M": cycles, **{f"{beta:g}": _cell(score, places.get((cycles, beta)), metric) for beta in betas}}
        for cycles in sorted({cycles for cycles, _ in places})
    ]
    unit = next((e.unit for group in groups if (e := score.estimate(group, metric))), "")
    seeds = sorted({len(group.runs) for group in groups})
    spoken = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else f"{seeds[0]} seeds"
    draws = sorted({kept for group in groups for kept in group.done.numbers.draws_kept if kept is not None})
    notes = [f"{spoken} a cell" + (f"; {draws[0]:,} to {draws[-1]:,} draws a run" if draws else "")]
    title = f"{label}: {metric.replace('_', ' ')} ({unit}); {score.title}"
    return Table(title, columns, rows, [*notes, *score.failures()])


def _cell(score: FieldScore, group: Group | None, metric: str) -> str:
    if group is None:
        return ""
    lost = len(group.diverged) + len(group.failed)
    text = with_interval(score.estimate(group, metric))
    return f"{text} ({lost} of {len(group.runs)} seeds lost)" if lost else text
