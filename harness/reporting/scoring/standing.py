"""Which groups are ranked, and why the others are not: RULES.md 3 to 6 as code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.diagnostics import Gate
from harness.analysis.statistics import Direction, Rank, most_failures, rank_methods, rank_replicates
from harness.analysis.statistics.ranks import MINIMUM_SEEDS
from harness.reporting.scoring.accuracy import JOINT, MARGINS, MODES, ONE_DRAW
from harness.reporting.scoring.estimates import Estimate
from harness.reporting.scoring.groups import Group
from harness.reporting.scoring.labels import tuned_otherwise


@dataclass(frozen=True)
class RankStatus:
    """The rank of a group. `status` is "ranked" or the reason why it is not ranked; `rank` is None if it is not."""

    status: str
    rank: Rank | None = None

    @property
    def short(self) -> str:
        """The status without its explanation: "biased"."""
        return self.status.partition(":")[0]


def standings(
    field: Sequence[Group], estimates: Mapping[str, Estimate | None], gates: Mapping[str, Gate | None]
) -> dict[str, RankStatus]:
    """Return the rank status of each group of a field by one metric, by group key.

    Not ranked are baselines, groups with a diverged or failed seed, with fewer than five seeds, or without a value for
    some seed, groups that fail their laws, that the gate finds biased or cannot judge, that were tuned by earlier rules
    than others, or that were not run here. `gates` is empty for a metric that a wrong law cannot inflate.
    A group without a gate is ranked only if the others have none either (no truth is known). All other groups are
    ranked, with a verdict from the test of their pair with the best.
    """
    trusted = [group.key for group in field if group.verified]  # unverified groups must not affect the others
    truth_known = any(gates.get(key) is not None for key in trusted)
    newest = max((e.version for key in trusted if (e := estimates.get(key)) is not None), default=0)
    newest_rules = max((g.tuning_version for g in field if g.verified and not g.baseline), default=0)
    status_of: dict[str, RankStatus] = {}
    for group in field:
        gate = gates.get(group.key)
        reason = (
            _failure(group)
            or ("baseline: not a sampler of the posterior" if group.baseline else "")
            or (f"unranked: {tuned_otherwise(group)}" if 0 != group.tuning_version < newest_rules > 0 else "")
            or ("" if group.verified else f"{group.level}: not run by the owner of these results (RULES.md 9)")
            or group.unlawful
            or (f"biased: {gate.reason}" if gate is not None and gate.verdict == "biased" else "")
            or ("unranked: fewer than five seeds" if len(group.runs) < MINIMUM_SEEDS else "")
            or ("unranked: equal seconds are not equal cost" if group.budget.startswith("seconds=") else "")
            or _doubt(gate, truth_known=truth_known)
            or _without_value(group, estimates.get(group.key), newest)
        )
        status_of[group.key] = RankStatus(reason or "ranked")
    eligible = {g.key: e for g in field if status_of[g.key].status == "ranked" and (e := estimates[g.key]) is not None}
    ranks = _ranks(eligible, {g.key: g.runs.numbers.seed for g in field}, rare=any(MODES in g.readings for g in field))
    return status_of | {
        key: RankStatus("ranked", ranks[key]) if key in ranks else RankStatus("unranked: no value for each seed")
        for key in eligible
    }


def _failure(group: Group) -> str:
    total = len(group.runs)
    if group.diverged:
        return f"diverged {_share(len(group.diverged), total)}"
    if group.failed:
        kinds = ", ".join(sorted({run.status for run in group.failed}))
        return f"failed {_share(len(group.failed), total)}: {kinds}; run again with --retry"
    return ""


def _share(failed: int, total: int) -> str:
    """Return a share with its exact bound: "1 of 10 (up to 39 %)"."""
    if failed == total:
        return f"{failed} of {total}"
    return f"{failed} of {total} (up to {most_failures(failed, total):.0%})".replace("%", " %")


def _doubt(gate: Gate | None, *, truth_known: bool) -> str:
    if gate is None:
        return "undetermined: no record of its bias" if truth_known else ""
    return f"undetermined: {gate.reason}" if gate.verdict == "undetermined" else ""


def _without_value(group: Group, estimate: Estimate | None, newest: int) -> str:
    if estimate is None or estimate.mean is None:
        remark = estimate.remark if estimate is not None else "not measured"
        return f"unranked: {remark or 'no value'}"
    if estimate.direction == "target" and estimate.target is None:
        return "unranked: the metric has no best value"
    if estimate.version != newest or estimate.measured < len(group.runs):
        return "unranked: some seeds have an older version of the metric"
    return ""


def _ranks(eligible: Mapping[str, Estimate], seeds_of: Mapping[str, Sequence[int]], *, rare: bool) -> dict[str, Rank]:
    """Return the ranks by one metric, with errors from bootstrap replicates if there are any, else from the seeds."""
    if not eligible:
        return {}
    first = next(iter(eligible.values()))
    direction: Direction = "max" if first.direction == "max" else "min"
    margin = MARGINS.get(first.metric)
    if first.replicates is None:
        by_seed = {key: _scores(e) for key, e in eligible.items()}
        ranked = rank_methods(by_seed, direction, margin=margin, rare=rare)
        return {key: rank for key, rank in ranked.items() if rank is not None}
    # A group whose seeds do not vary has no replicates, so its value is used for all of them.
    size = len(first.replicates)
    point = np.array([e.mean for e in eligible.values()], dtype=np.float64)
    replicates = [e.replicates if e.replicates is not None else np.full(size, e.mean) for e in eligible.values()]
    seeds = [seeds_of[key] for key in eligible]
    limit = ONE_DRAW if first.metric == JOINT else math.inf
    errors = [e.of_seed for e in eligible.values()] if rare and first.metric == JOINT else None
    ranks = rank_replicates(point, replicates, direction, seeds=seeds, margin=margin, limit=limit, by_seed=errors)
    return dict(zip(eligible, ranks, strict=True))


def _scores(estimate: Estimate) -> dict[int, float]:
    """Return the values by seed, or their distances from the target if the best value is a target."""
    if estimate.direction != "target" or estimate.target is None:
        return dict(estimate.by_seed)
    return {seed: abs(value - estimate.target) for seed, value in estimate.by_seed.items()}
