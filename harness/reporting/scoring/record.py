"""A group and a metric as one flat record, which is a row of a report as JSON or CSV."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from harness.analysis.statistics import most_failures
from harness.reporting.scoring.estimates import Estimate
from harness.reporting.scoring.groups import Group, Run
from harness.reporting.scoring.labels import settings_from
from harness.reporting.scoring.standing import RankStatus
from harness.results.records import Status


def flat_record(group: Group, label: str, estimate: Estimate, standing: RankStatus) -> dict[str, Any]:
    """Return the group, its estimate and its rank as one flat record. Numbers may be infinite."""
    rank = standing.rank
    return {
        **_fields(group, "task", "task_version", "protocol", "method"),
        "label": label,
        "group": group.key,
        **_fields(group, "chains", "budget", "steps"),
        "passes": typical(group.done.numbers.passes),
        "seconds": group.seconds,
        "metric": estimate.metric,
        "metric_version": estimate.version,
        **_fields(estimate, "unit", "direction", "target"),
        "seeds": len(group.runs),
        "measured": estimate.measured,
        "diverged": len(group.diverged),
        "failed": len(group.failed),
        "failures_high": most_failures(len(group.diverged) + len(group.failed), len(group.runs)),
        **_fields(estimate, "mean", "low", "high", "interval", "remark"),
        "rank": rank.rank if rank else None,
        "rank_low": rank.low if rank else None,
        "rank_high": rank.high if rank else None,
        "verdict": str(rank.verdict) if rank else None,
        "seeds_to_decide": rank.seeds if rank else None,
        "status": standing.status,
        "verified": str(group.level),
        "laws": str(group.laws),
        "caveats": "; ".join(f"{name}: {text}" for name, text in group.caveats.items()) or None,
        "ruleset": str(group.ruleset),
        "tuning_passes": group.tuning.passes if group.tuning else None,
        "full_gradients": group.full_gradients,
        "untuned": ", ".join(settings_from(group, "untuned")) or None,
        "tuned": group.tuned or None,
        "given": ", ".join(group.given) or None,
        "set_by_user": ", ".join(settings_from(group, "user")) or None,
        "run_keys": [run.key for run in group.runs],
    }


def _fields(record: Group | Estimate, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def account(run: Run) -> str:
    """Return a line that says how a run diverged or failed."""
    if run.status == Status.DIVERGED:
        return f"seed {run.seed} {divergence(run)}"
    return f"seed {run.seed} {run.status}: {run.reason or 'no reason given'}"


def divergence(run: Run) -> str:
    """Return where a run diverged: "diverged at step 120, chain 2"."""
    return f"diverged at step {run.step:,}, chain {run.chain}" if run.step is not None else Status.DIVERGED


def typical(values: Sequence[float | None]) -> float | None:
    """Return the median of the known values, or None if there are none."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
