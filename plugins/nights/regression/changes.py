"""How tonight differs from the reference, by row and metric, paired by seed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist, pvariance
from typing import Any

from harness import statistics
from harness.reporting.scoring.compare import FEWEST, Scale
from harness.reports import Comparison, PairOutcome, compare_values, judge
from harness.results import RESUMABLE, Status
from plugins.nights.regression.night import MetricValues, Night, NightRow

ROUNDING = 1e-6
"""Values that differ by less than this share are equal: a different order of summation is not a regression."""

WORSE = ("worse", Status.DIVERGED, "failed", "gone")
"""The outcomes that are regressions."""

_LOST = {Status.DIVERGED: (Status.DIVERGED,), "failed": (Status.ERROR,), "unfinished": RESUMABLE}
"""The statuses of each outcome of a lost seed. A lack of resources says nothing about the method (RULES.md, 4)."""

CUMULATIVE = 0.02
"""Level of the cumulative test, of all rows of a family in one night; tests/nights/test_cumulative.py has years."""
STILL = "found in an earlier night, and more than half of it is left"
ALONE = 0.05
"""Level of tonight alone, without the others of its family, if the cumulative test finds a row worse."""
NEW = 0.5
"""A night is new evidence if its variance from the last that counts is at least this share of that from the
reference."""

LOST = 0.01
"""Level of the test whether more seeds lost their value than gained one."""


@dataclass(frozen=True)
class Change:
    """The change of a metric of a row, or of the row as a whole (if the metric is "").

    outcome     worse: by the metric's direction, its interval excludes no change; better; diverged, failed: seeds that
                had a result; gone: the row or its value no longer exists; unclear: other values, no verdict;
                unfinished: seeds ended by a time limit or for lack of memory;
                same; new; not compared; skipped: its data is missing; dropped: the suite no longer requests it
    comparison  tonight (a) against the reference (b), if their values differ
    main        whether the metric is the one that ranks the row: these metrics are a family of their own
    """

    row: str
    metric: str
    outcome: str
    reason: str = ""
    comparison: Comparison | None = None
    main: bool = False

    @property
    def is_regression(self) -> bool:
        """Whether it is reported as a regression."""
        return self.outcome in WORSE


def changes(
    last: Night | None, tonight: Night, skipped: Collection[str] = (), earlier: Sequence[Night] = ()
) -> list[Change]:
    """Return how every row and metric differs from the reference, in order.

    The main metrics whose values differ are one family, the others another. `skipped` are rows that were left out
    tonight. `earlier` are the nights before tonight, the latest first, for the cumulative test.
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
            changed.append(Change(name, "", "new", "not in the reference" if last else ""))
        else:
            changed += _of_row(name, before[name], tonight.rows[name])
    for main in (True, False):
        family = [i for i, change in enumerate(changed) if change.comparison is not None and change.main == main]
        comparisons = judge([comparison for i in family if (comparison := changed[i].comparison) is not None])
        judged = [_judged(changed[i], comparison) for i, comparison in zip(family, comparisons, strict=True)]
        if last is not None:
            judged = _over_nights([_still(change, last) for change in judged], before, tonight, earlier)
        for i, change in zip(family, judged, strict=True):
            changed[i] = change
    return changed


def _still(change: Change, last: Night) -> Change:
    """Return the change; a regression of the last night stays one while half of the printed difference is left."""
    key, comparison = (change.row, change.metric, "worse"), change.comparison
    printed = next((effect for *finding, effect in last.told if tuple(finding[:3]) == key), None)
    if change.outcome != "unclear" or printed is None or comparison is None or comparison.effect is None:
        return change
    left, whole = (_size(effect, comparison.scale) for effect in (comparison.effect, printed))
    open_still = comparison.favours == "b" and abs(left) > abs(whole) / 2
    return replace(change, outcome="worse", reason=STILL) if open_still else change


def _size(effect: float, scale: Scale) -> float:
    """Return the difference, or the logarithm of a ratio."""
    return math.log(max(effect, math.ulp(0.0))) if scale == "ratio" else effect


def _over_nights(
    family: Sequence[Change], before: Mapping[str, NightRow], tonight: Night, earlier: Sequence[Night]
) -> list[Change]:
    """Return a family; what has no verdict tonight is worse if the cumulative test says so."""
    evidence = {
        (change.row, change.metric): evidence
        for change in family
        if change.outcome == "unclear" and (evidence := cumulative(before, tonight, earlier, change)) is not None
    }
    judged = []
    for change in family:
        over = evidence.get((change.row, change.metric))
        if over is not None and over.worse and (p := over.p * len(evidence)) < CUMULATIVE:
            reason = f"in {over.nights} nights with new numbers together, p {p:.1g} for all"
            judged.append(replace(change, outcome="worse", reason=reason))
        else:
            judged.append(change)
    return judged


@dataclass(frozen=True)
class Evidence:
    """The cumulative test of a metric: over how many nights, its p, and whether tonight alone is worse with p < .05."""

    nights: int
    p: float
    worse: bool


def cumulative(
    before: Mapping[str, NightRow], tonight: Night, earlier: Iterable[Night], change: Change
) -> Evidence | None:
    """Test whether a row was worse than its reference over the nights that have new numbers, tonight included.

        Z = (z_1 + ... + z_m) / sqrt(m (m + 1) / 2),    z_t = the normal quantile of the p of night t, worse is positive

    All nights are compared with one reference, which varies as much as a night: z_s and z_t have correlation 1/2, hence
    the variance. A night counts if the differences by seed from the last that counts vary by at least half of the
    variance of those from the reference; otherwise its numbers follow those of that night, and are no new evidence.
    None for fewer than two nights.
    """
    reference = before[change.row].metrics[change.metric]
    nights = [tonight.rows[change.row].metrics[change.metric]]
    for night in earlier:
        row = night.rows.get(change.row)
        values = row.metrics.get(change.metric) if row is not None and change.row in night.standard else None
        if values is None or _incomparable(reference, values) or _same(reference.values, values.values):
            break
        nights.append(values)
    scores: list[float] = []
    counted = reference
    for values in reversed(nights):
        compared = compare(values, reference)
        if compared.tested is None or _same(values.values, counted.values):
            continue
        news = _variance(values, counted, compared.scale)
        if not scores or news >= NEW * _variance(values, reference, compared.scale):
            z = NormalDist().inv_cdf(1 - max(compared.tested.p, 1e-15) / 2)
            scores.append({"a": -z, "b": z, "": 0.0}[compared.favours])
            counted = values
    if len(scores) < 2 or change.comparison is None or change.comparison.p is None:
        return None
    total = sum(scores) / math.sqrt(len(scores) * (len(scores) + 1) / 2)
    return Evidence(len(scores), 2 * NormalDist().cdf(-max(total, 0.0)), _is_worse(change.comparison))


def _is_worse(comparison: Comparison | None) -> bool:
    """Return whether tonight is worse by this metric alone, without the others of its family."""
    p = comparison.p if comparison is not None else None
    return comparison is not None and p is not None and comparison.favours == "b" and p < ALONE


def _variance(values: MetricValues, others: MetricValues, scale: Scale) -> float:
    """Return the variance over seeds of the differences of two nights, of the logarithms if the scale is a ratio."""
    seeds = values.values.keys() & others.values
    sides = [[_distance(side.values[seed], values) for seed in seeds] for side in (values, others)]
    if not seeds:
        return 0.0
    if scale == "ratio" and min(map(min, sides), default=0.0) > 0:
        sides = [[math.log(value) for value in side] for side in sides]
    return pvariance([x - y for x, y in zip(*sides, strict=True)])


def settled(last: Night | None, tonight: Night, changed: Collection[Change], *, accepted: bool) -> Night:
    """Return tonight as it is recorded, with the rows of the reference whose numbers differ from its own."""
    before = last.compared_with() if last else {}
    by_row: dict[str, list[Change]] = {}
    for change in changed:
        by_row.setdefault(change.row, []).append(change)
    standard: dict[str, NightRow] = {}
    for name, row in sorted(before.items()):
        outcomes = {change.outcome for change in by_row.get(name, ())}
        if accepted and not outcomes & {"skipped", "unfinished"}:
            continue
        now = tonight.rows.get(name)
        if now is None:
            standard |= {} if "dropped" in outcomes else {name: row}
        elif _another_season(row, now) or outcomes <= {"same", "new", "not compared"}:
            continue
        else:
            new = {c.metric for c in by_row[name] if c.outcome in ("new", "not compared")}
            added = {metric: known for metric, known in now.metrics.items() if metric in new and known.values}
            standard[name] = replace(row, metrics=dict(sorted({**row.metrics, **added}.items())))
    reference = tonight.recorded if accepted or last is None else last.reference
    return replace(tonight, standard=standard, accepted=accepted, reference=reference)


def _another_season(before: NightRow, now: NightRow) -> bool:
    """Return whether tonight's numbers of a row replace the reference: another version of its task, or other seeds."""
    return before.task_version != now.task_version or not before.keys.keys() & now.keys.keys()


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
        change = _of_metric(name, metric, before.metrics.get(metric), now.metrics.get(metric), both)
        if change.comparison is not None:
            shown = replace(change.comparison, a=now.number(metric), b=before.number(metric))
            change = replace(change, comparison=shown)
        yield replace(change, main=metric == now.main)


def _of_metric(
    row: str, name: str, before: MetricValues | None, now: MetricValues | None, seeds: Collection[int]
) -> Change:
    """Return the change of a metric of a row; `seeds` have a result in both nights."""
    if before is None or now is None:
        outcome, reason = ("new", "not in the reference") if now else ("gone", "it is no longer computed")
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
    if _same({seed: then[seed] for seed in pairs}, {seed: here[seed] for seed in pairs}):
        return Change(row, name, "unclear" if lost else "same", reason)
    return Change(row, name, "unclear", reason, comparison=replace(compare(now, before, pairs), metric=name))


def _same(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    """Return whether two nights have the same seeds and values."""
    alike = one.keys() == other.keys()
    return alike and all(math.isclose(value, other[seed], rel_tol=ROUNDING) for seed, value in one.items())


def _more_often(lost: int, gained: int) -> float:
    """Return p of a sign test: of the seeds whose value appeared or disappeared, `lost` or more lost it."""
    n = lost + gained
    return sum(math.comb(n, k) for k in range(lost, n + 1)) / 2**n


def _incomparable(before: MetricValues, now: MetricValues) -> str:
    """Return why two records of a metric cannot be compared; "" if they can."""
    if before.statistic != now.statistic:
        return "a mean over seeds then, of the chains of all seeds now"
    if before.version != now.version:
        return f"version {before.version} of the metric then, {now.version} now"
    return "the metric has no best value" if now.direction == "target" and now.target is None else ""


def compare(tonight: MetricValues, reference: MetricValues, seeds: Collection[int] | None = None) -> Comparison:
    """Compare tonight (a) with the reference (b): by ratio if all values are positive and not counts, else difference.

    (If small counts fall by one, their logarithms differ almost equally, and the t of those means nothing.) p has
    no lower bound: that all seeds of one sampler change alike is no chance, and with many rows no change would pass.
    If all ratios are equal, as no noise makes them, p is 0. If the statistic is of all seeds, p is not below that of
    each seed's own: where one seed of both nights decides the statistic, its pseudo-values hardly vary.
    """
    metric = tonight
    pairs = {seed for seed in tonight.values.keys() & reference.values if seeds is None or seed in seeds}
    a, b = ({seed: side.values[seed] for seed in pairs} for side in (tonight, reference))
    values = [_distance(value, metric) for side in (a, b) for value in side.values()]
    ratio = min(values, default=0.0) > 0 and not all(value.is_integer() for value in values)
    scale: Scale = "ratio" if ratio else "difference"
    test = partial(statistics.paired_test, chance=0.0)
    comparison = compare_values(a, b, metric.direction, metric.target, scale=scale, test=test)
    if ratio and comparison.tested is not None and comparison.tested.interval == "equal":
        effect = comparison.tested.estimate
        equal = replace(comparison.tested, p=0.0, chance=0.0, ends=lambda _: (effect, effect))
        comparison = replace(comparison, tested=replace(equal, method="equal ratios of all seeds"))
    if comparison.tested is not None and pairs <= tonight.of_seed.keys() & reference.of_seed:
        now, before = (replace(side, values=side.of_seed, of_seed={}) for side in (tonight, reference))
        comparison = replace(comparison, tested=_not_below(comparison.tested, compare(now, before, pairs).p))
    return replace(comparison, version=metric.version, unit=metric.unit)


def _not_below(tested: statistics.PairedTest, p: float | None) -> statistics.PairedTest:
    """Return a test whose p is not below another one; intervals at levels that this does not reach include zero."""
    least = 1.0 if p is None else p

    def ends(level: float) -> tuple[float | None, float | None]:
        low, high = tested.ends(level)
        if low is None or high is None or least < 1 - level:
            return low, high
        return min(low, 0.0), max(high, 0.0)

    return replace(tested, p=max(tested.p, least), ends=ends)


def _distance(value: float, metric: MetricValues) -> float:
    return abs(value - metric.target) if metric.direction == "target" and metric.target is not None else value


def _judged(change: Change, comparison: Comparison) -> Change:
    decided = comparison.outcome in (PairOutcome.BETTER, PairOutcome.WORSE)
    outcome = str(comparison.outcome) if decided else "unclear"
    reason = comparison.withheld or change.reason
    return replace(change, outcome=outcome, reason=reason, comparison=comparison)


SCALES: Mapping[Scale, str] = {"ratio": "tonight / reference", "difference": "tonight - reference"}


def flat(change: Change) -> dict[str, Any]:
    """Return a change as a flat record."""
    comparison = change.comparison
    return {
        "outcome": change.outcome,
        "row": change.row,
        "metric": change.metric or None,
        "main": change.main,
        "reason": change.reason or None,
        "reference": comparison.b if comparison else None,
        "tonight": comparison.a if comparison else None,
        "effect": comparison.effect if comparison else None,
        "low": comparison.low if comparison else None,
        "high": comparison.high if comparison else None,
        "scale": SCALES[comparison.scale] if comparison else None,
        "seeds": len(comparison.pairs) if comparison else None,
        "direction": comparison.direction if comparison else None,
        "target": comparison.target if comparison else None,
        "unit": comparison.unit if comparison else None,
        "p": comparison.p if comparison else None,
        "p_adjusted": comparison.adjusted if comparison else None,
        "test": comparison.tested.method if comparison and comparison.tested else None,
    }
