"""What changed from the last night to tonight, by row and metric, paired by seed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness import statistics
from harness.reporting.scoring.compare import FEWEST, Scale
from harness.reports import Comparison, compare_values, judge
from harness.results import RESUMABLE, Status
from plugins.nights.regression.night import MetricValues, Night, NightRow

ROUNDING = 1e-6
"""Values that differ by less than this share are equal: a different order of summation is not a regression."""

WORSE = ("worse", Status.DIVERGED, "failed", "gone")
"""The outcomes that are regressions."""

_LOST = {Status.DIVERGED: (Status.DIVERGED,), "failed": (Status.ERROR,), "unfinished": RESUMABLE}
"""The statuses of each outcome of a lost seed. A lack of resources says nothing about the method (RULES.md, 4)."""

LOST = 0.01
"""Level of the test whether more seeds lost their value than gained one."""


@dataclass(frozen=True)
class Change:
    """The change of a metric of a row, or of the row as a whole (if the metric is "").

    outcome     worse: by the metric's direction, p < .05 after Holm; diverged, failed: seeds that had a result;
                gone: the row or its value no longer exists; better; unclear: other values, no verdict;
                unfinished: seeds ended by a time limit or for lack of memory;
                same; new; not compared; skipped: its data is missing; dropped: the suite no longer requests it
    comparison  tonight (a) against the last night (b), if their values differ
    """

    row: str
    metric: str
    outcome: str
    reason: str = ""
    comparison: Comparison | None = None

    @property
    def is_regression(self) -> bool:
        """Whether it is reported as a regression."""
        return self.outcome in WORSE


def changes(last: Night | None, tonight: Night, skipped: Collection[str] = ()) -> list[Change]:
    """Return the changes of every row and metric of either night, in order, with Holm over all whose values differ.

    `skipped` are rows that were left out tonight.
    """
    before = last.compared_with() if last else {}
    edited = last is not None and last.suite != tonight.suite
    changed: list[Change] = []
    for name in sorted({*before, *tonight.rows, *skipped}):
        if name in skipped:
            changed.append(Change(name, "", "skipped", "its data is not here"))
        elif name not in tonight.rows:
            outcome, reason = ("dropped", "the suite was edited") if edited else ("gone", "the row no longer exists")
            changed.append(Change(name, "", outcome, reason))
        elif name not in before:
            changed.append(Change(name, "", "new", "not in the last night" if last else ""))
        else:
            changed += _of_row(name, before[name], tonight.rows[name])
    family = iter(judge([change.comparison for change in changed if change.comparison is not None]))
    return [_judged(change, next(family)) if change.comparison else change for change in changed]


def settled(last: Night | None, tonight: Night, changed: Collection[Change], *, accepted: bool) -> Night:
    """Return tonight as it is recorded, with the values to compare the next night with."""
    before = last.compared_with() if last else {}
    kept = {change.row for change in changed if change.outcome in ("skipped", "unfinished")}
    if not accepted:
        kept |= {change.row for change in changed if change.is_regression}
    standard = {name: before[name] for name in sorted(kept) if name in before}
    return replace(tonight, standard=standard, accepted=accepted)


def _of_row(name: str, before: NightRow, now: NightRow) -> Iterator[Change]:
    """Yield the changes of a row that both nights have; a change with other values has a comparison."""
    if before.task_version != now.task_version:
        versions = f"version {before.task_version} of the task then, {now.task_version} now"
        yield Change(name, "", "not compared", versions)
        return
    fine = {seed for seed in before.statuses.keys() & now.statuses.keys() if seed not in before.lost()}
    lost = {seed: status for seed, status in now.lost().items() if seed in fine}
    for outcome, statuses in _LOST.items():
        seeds = [str(seed) for seed, status in sorted(lost.items()) if status in statuses]
        if seeds:
            noun = "seed" if len(seeds) == 1 else "seeds"
            yield Change(name, "", outcome, f"{noun} {', '.join(seeds)}, which had a result")
    both = fine - lost.keys()
    if not both:
        return
    for metric in sorted({*before.metrics, *now.metrics}):
        yield _of_metric(name, metric, before.metrics.get(metric), now.metrics.get(metric), both)


def _of_metric(
    row: str, name: str, before: MetricValues | None, now: MetricValues | None, seeds: Collection[int]
) -> Change:
    """Return the change of a metric of a row; `seeds` have a result in both nights."""
    if before is None or now is None:
        outcome, reason = ("new", "not in the last night") if now else ("gone", "it is no longer computed")
        return Change(row, name, outcome, reason)
    then = {seed: value for seed, value in before.values.items() if seed in seeds}
    here = {seed: value for seed, value in now.values.items() if seed in seeds}
    if reason := _incomparable(before, now):
        return Change(row, name, "not compared", reason)
    lost, gained = then.keys() - here.keys(), here.keys() - then.keys()
    reason = f"{len(lost)} of {len(then)} seeds that had a value have none" if lost else ""
    if lost and ((not here and len(then) == len(seeds) >= FEWEST) or _more_often(len(lost), len(gained)) < LOST):
        return Change(row, name, "gone", reason)
    pairs = then.keys() & here.keys()
    if not pairs:
        return Change(row, name, "not compared", "no seed has a value in both nights")
    if all(math.isclose(then[seed], here[seed], rel_tol=ROUNDING) for seed in pairs):
        return Change(row, name, "unclear" if lost else "same", reason)
    return Change(row, name, "unclear", reason, comparison=replace(compare(here, then, now), metric=name))


def _more_often(lost: int, gained: int) -> float:
    """Return p of a sign test: of the seeds whose value appeared or disappeared, `lost` or more lost it."""
    n = lost + gained
    return sum(math.comb(n, k) for k in range(lost, n + 1)) / 2**n


def _incomparable(before: MetricValues, now: MetricValues) -> str:
    """Return why two records of a metric cannot be compared; "" if they can."""
    if before.version != now.version:
        return f"version {before.version} of the metric then, {now.version} now"
    return "the metric has no best value" if now.direction == "target" and now.target is None else ""


def compare(tonight: Mapping[int, float], last: Mapping[int, float], metric: MetricValues) -> Comparison:
    """Compare tonight (a) with last night (b): by ratio if all values are positive and not counts, else by difference.

    (If small counts fall by one, their logarithms differ almost equally, and the t of those means nothing.) The test is
    `_test`, not the test of claims: with sign flips alone p is at least 2^(1-n) for n seeds, and over many rows Holm
    would let no change pass.
    """
    pairs = tonight.keys() & last.keys()
    values = [_distance(side[seed], metric) for side in (tonight, last) for seed in pairs]
    ratio = min(values, default=0.0) > 0 and not all(value.is_integer() for value in values)
    scale: Scale = "ratio" if ratio else "difference"
    comparison = compare_values(tonight, last, metric.direction, metric.target, scale=scale, test=_test)
    return replace(comparison, version=metric.version, unit=metric.unit)


def _distance(value: float, metric: MetricValues) -> float:
    return abs(value - metric.target) if metric.direction == "target" and metric.target is not None else value


def _test(differences: Sequence[float]) -> statistics.PairedTest:
    """Apply a paired t test, or sign flips if all seeds differ by the same amount."""
    alike = max(differences) - min(differences) <= ROUNDING * max(map(abs, differences))
    return statistics.sign_flip(differences) if alike else statistics.paired_t(differences)


def _judged(change: Change, comparison: Comparison) -> Change:
    outcome = {"b": "worse", "a": "better", "": "unclear"}[comparison.better]
    reason = comparison.withheld or change.reason
    return replace(change, outcome=outcome, reason=reason, comparison=comparison)


def flat(change: Change) -> dict[str, Any]:
    """Return a change as a flat record."""
    comparison = change.comparison
    return {
        "outcome": change.outcome,
        "row": change.row,
        "metric": change.metric or None,
        "reason": change.reason or None,
        "last": comparison.b if comparison else None,
        "tonight": comparison.a if comparison else None,
        "effect": comparison.effect if comparison else None,
        "low": comparison.low if comparison else None,
        "high": comparison.high if comparison else None,
        "scale": {"ratio": "tonight / last", "difference": "tonight - last"}[comparison.scale] if comparison else None,
        "seeds": len(comparison.pairs) if comparison else None,
        "direction": comparison.direction if comparison else None,
        "target": comparison.target if comparison else None,
        "unit": comparison.unit if comparison else None,
        "p": comparison.p if comparison else None,
        "p_after_holm": comparison.adjusted if comparison else None,
        "test": comparison.test or None if comparison else None,
    }
