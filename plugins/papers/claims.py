"""The papers' claims (an ordering of two methods, their equality, a success rate, the ease of tuning) and whether they
hold, also at the other points of a declared sweep.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from harness import statistics
from harness.reports import Estimate, Group, Term, compare_values, number, refusal, setting_text
from harness.system import count
from plugins.papers.files import PaperFile
from plugins.papers.reported import COMPILE, SWEPT, own_choices

LEVEL = 0.05
FEWEST = 3
SHARE_SEEDS = 10
"""The fewest seeds for a claim of how often a sampler succeeds."""

NOBODY = "and the methods that should succeed fail as well"
UNINFORMATIVE: Final = "not informative"
Finding = Literal["holds", "fails", "undecided", "vacuous", "not informative"]

MESSAGES = {
    "ordering": "its declared sweep reverses it",
    "equality": "in its declared sweep the second has the better value",
}
Point = tuple[dict[str, Any], float]
"""The values of the settings that are swept, and our mean at them."""


@dataclass(frozen=True)
class Setup:
    """What one side of a claim runs."""

    method: str
    task: str
    protocol: str
    chains: int


@dataclass(frozen=True)
class Analysis:
    """The finding of an exact analysis, which needs no run, with its evidence; `report` computes and shows it."""

    report: str
    finding: Finding
    evidence: str


@dataclass(frozen=True)
class Claim:
    """A claim of a paper. The sides and the metric are None if no metric of a task expresses it.

    kind      ordering: `better` is better than `worse` by the metric; equality: they differ by less than `margin`, a
              share of the larger; share: `better` succeeds in `share` of `trials`, by the metric's mean over seeds
              within `margin`; ease: `better` succeeds at a larger share of its declared sweep; analysis: `exact` has
              settled it
    direction max or min: which is better
    least_ess the metric is an effective sample size, and a value of `worse` below this leaves it open
    obstacle, needs, core_hours, cause, execution, ours  as in `Reported`, for both sides
    beside    metrics that are shown for both sides, without a test
    differs   the terms in which the sides differ, as the statement says
    """

    paper: str
    table: str
    statement: str
    kind: str
    better: Setup | None
    worse: Setup | None
    metric: str | None
    direction: str | None
    share: int | None
    trials: int | None
    margin: float | None
    least_ess: float | None
    obstacle: str | None
    needs: str | None
    core_hours: float | None
    cause: str | None
    notes: str | None
    execution: frozenset[str]
    exact: Analysis | None = None
    ours: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    differs: tuple[Term, ...] = ()

    @property
    def sides(self) -> list[Setup]:
        """The sides that its test compares; [] without a test."""
        named = [self.better] if self.kind == "share" else [self.better, self.worse]
        sides = [side for side in named if side is not None]
        return sides if self.metric and len(sides) == len(named) else []


@dataclass(frozen=True)
class Ours:
    """Our runs of a side, and their estimate of the metric, or None if it was not measured.

    sweep  the groups of its declared sweep, if the estimate is of all of them
    """

    group: Group
    estimate: Estimate | None
    sweep: Sequence[Group] = ()


@dataclass(frozen=True)
class Judged:
    """The finding of our runs on a claim. p is adjusted by Holm over the claims of its table; None without a test."""

    finding: Finding
    reason: str
    difference: float | None = None
    n: int = 0
    p: float | None = None


def load_claims(files: Sequence[PaperFile]) -> list[Claim]:
    """Return all claims, in the order of the papers' files."""
    same = (
        "metric", "direction", "share", "trials", "margin", "least_ess", "obstacle", "needs", "core_hours", "cause",
        "notes",
    )  # fmt: skip
    choices_of = own_choices(files)
    claims = []
    for paper, execution, entry in ((file.paper, file.execution, entry) for file in files for entry in file.claims):
        better = _side(entry["better"], entry["task"], entry["protocol"], entry["chains"])
        worse = _side(
            entry["worse"],
            entry["task"],
            entry["worse_protocol"] or entry["protocol"],
            entry["chains"] if entry["worse_chains"] is None else entry["worse_chains"],
        )
        sides = [side for side in (better, worse) if side is not None]
        stated = [text for side in sides for text in choices_of(paper, side.method, side.task, side.protocol)]
        stated += [f"measure: {entry['measure']}"] if entry["measure"] else []
        beside = entry.get("beside", [])
        claims.append(
            Claim(
                **{name: entry[name] for name in same},
                paper=paper,
                exact=_analysis(entry),
                beside=tuple(name for name in beside if isinstance(name, str)) if isinstance(beside, list) else (),
                differs=tuple(entry["differs"]),
                table=entry["table"] or "",
                statement=entry["statement"] or "",
                kind=entry["kind"] or "ordering",
                better=better,
                worse=worse,
                execution=execution | {COMPILE},
                ours=tuple(dict.fromkeys(stated)),
            )
        )
    return claims


def _analysis(entry: Mapping[str, Any]) -> Analysis | None:
    """Return the exact analysis in a claim, or None if the file has no complete one."""
    report, finding, evidence = (entry.get(name) for name in ("analysis", "finding", "evidence"))
    whole = isinstance(report, str) and isinstance(evidence, str) and finding in get_args(Finding)
    return Analysis(report, finding, evidence) if whole else None  # type: ignore[arg-type]


def judge_family(claims: Sequence[Claim], ours: Sequence[Sequence[Ours | None]]) -> list[Judged | None]:
    """Judge the claims of one table by our runs of their sides; None if a side was not run or not measured.

    Holm's family is all orderings and shares that the table declares: one that was not run, or on too few seeds, counts
    as p = 1. Orderings use a paired t test. Equalities are judged by the
    95 % interval of the difference, and are not adjusted. That a method never succeeds is "vacuous" if the table's
    methods that should succeed fail as well; that it is larger than a baseline of almost no effective sample size is
    "not informative".
    """
    raw = [_tested(claim, sides) for claim, sides in zip(claims, ours, strict=True)]
    family = [i for i, claim in enumerate(claims) if claim.kind not in {"equality", "analysis"} and claim.sides]
    p = [1.0 if (judgement := raw[i]) is None or judgement.p is None else judgement.p for i in family]
    adjusted = dict(zip(family, statistics.holm(p), strict=True)) if family else {}
    judged = [
        None if judgement is None else _decided(claim, judgement, adjusted.get(i), len(family))
        for i, (claim, judgement) in enumerate(zip(claims, raw, strict=True))
    ]
    judged = [
        None if judgement is None else _informative(claim, sides, judgement)
        for claim, sides, judgement in zip(claims, ours, judged, strict=True)
    ]
    should = [
        judgement for claim, judgement in zip(claims, judged, strict=True) if claim.kind == "share" and claim.share
    ]
    if not should or any(judgement is None or judgement.finding != "fails" for judgement in should):
        return judged
    return [
        replace(judgement, finding="vacuous", reason=f"{judgement.reason}; {NOBODY}")
        if claim.kind == "share" and not claim.share and judgement is not None and judgement.finding == "holds"
        else judgement
        for claim, judgement in zip(claims, judged, strict=True)
    ]


def _tested(claim: Claim, ours: Sequence[Ours | None]) -> Judged | None:
    """Return the claim's difference in the direction that it claims, with the p of its own test."""
    if claim.kind == "share" and ours and ours[0] is not None:
        return _tested_share(claim, ours[0].group, ours[0].estimate)
    sides = [(side.group, side.estimate) for side in ours if side is not None and side.estimate is not None]
    if not ours or len(sides) < len(ours):
        return None
    if why := refusal(sides[0][0], sides[1][0], claim.differs):
        return Judged("undecided", why)
    values = [estimate.by_seed for _, estimate in sides]
    lost = sum(len(group.diverged) + len(group.failed) for group, _ in sides)
    remarks = [*(estimate.remark for _, estimate in sides), f"{lost} of our runs diverged or failed" if lost else ""]
    if lost or not all(values):
        return Judged("undecided", "; ".join(filter(None, remarks)) or "none of our seeds has a value")
    return _paired(claim, values[0], values[1])


def _tested_share(claim: Claim, group: Group, estimate: Estimate | None) -> Judged | None:
    successes = dict(estimate.by_seed) if estimate is not None else {}
    if len(group.done) and not successes:
        return None
    if group.failed:
        return Judged("undecided", f"{len(group.failed)} of our runs failed")
    successes |= dict.fromkeys(group.diverged.numbers.seed, 0.0)  # a divergence is not a success
    return _share(claim, list(successes.values())) if successes else None


def _paired(claim: Claim, left: Mapping[int, float], right: Mapping[int, float]) -> Judged:
    n = len(left.keys() & right.keys())
    if n < FEWEST:
        return Judged("undecided", f"{n} seeds in common, fewer than {FEWEST}", None, n)
    if not all(math.isfinite(values[seed]) for values in (left, right) for seed in left.keys() & right.keys()):
        return Judged("undecided", "one of our values is not finite", None, n)
    comparison = compare_values(left, right, claim.direction or "max")
    sign = -1.0 if claim.direction == "min" else 1.0
    differences = [sign * (left[seed] - right[seed]) for seed in comparison.pairs]
    mean = sign * (comparison.effect or 0.0)
    if claim.kind != "equality":
        reason = comparison.tested.method if comparison.tested and any(differences) else "no difference in any seed"
        return Judged("undecided", reason, mean, n, comparison.p)
    if claim.margin is None:
        return Judged("undecided", "the claim names no margin within which they count as equal", mean, n)
    over = statistics.mean_interval(differences)
    low, high = over.low or 0.0, over.high or 0.0
    margin = claim.margin * max(abs(sum(values.values()) / len(values)) for values in (left, right))
    where = f"95 % interval of the difference [{low:.4g}, {high:.4g}], margin {margin:.4g}"
    if -margin <= low and high <= margin:
        return Judged("holds", where, mean, n)
    return Judged("fails" if low > margin or high < -margin else "undecided", where, mean, n)


def _share(claim: Claim, values: Sequence[float]) -> Judged:
    from scipy.stats import fisher_exact

    ours, n = round(sum(values)), len(values)
    theirs, trials = claim.share or 0, claim.trials or 0
    if not 0 <= theirs <= trials:
        return Judged("undecided", f"{theirs} of {trials} is not a share", None, n)
    p = float(fisher_exact([[ours, n - ours], [theirs, trials - theirs]])[1])
    difference = ours / n - (theirs / trials if trials else 0.0)
    return Judged("undecided", f"{ours} of {n} against {theirs} of {trials}, Fisher's exact test", difference, n, p)


def _decided(claim: Claim, judged: Judged, p: float | None, family: int) -> Judged:
    if judged.p is None or p is None or judged.difference is None:
        return judged
    reason = f"{judged.reason}; Holm over {count(family, 'claim')}"
    if claim.kind == "share":
        within = abs(judged.difference) <= (claim.margin or 0.0) + 1e-9
        finding: Finding = "holds" if within and judged.n >= SHARE_SEEDS else "undecided"
        return Judged("fails" if p < LEVEL else finding, reason, judged.difference, judged.n, p)
    finding = "undecided" if p >= LEVEL else "holds" if judged.difference > 0 else "fails"
    return Judged(finding, reason, judged.difference, judged.n, p)


def _informative(claim: Claim, ours: Sequence[Ours | None], judged: Judged) -> Judged:
    """Return the judgement, made uninformative if the baseline has less effective sample size than the claim asks."""
    baseline = ours[-1].estimate if ours and ours[-1] is not None else None
    if claim.least_ess is None or baseline is None or baseline.mean is None or baseline.mean >= claim.least_ess:
        return judged
    why = f"the baseline's effective sample size of {number(baseline.mean)} is below {claim.least_ess:g}"
    return replace(judged, finding=UNINFORMATIVE, reason=f"{why}; {judged.reason}")


def _side(method: str | None, task: str | None, protocol: str | None, chains: int | None) -> Setup | None:
    if method is None or task is None or protocol is None or chains is None:
        return None
    return Setup(method, task, protocol, chains)


def by_table(claims: Sequence[Claim]) -> Mapping[tuple[str, str], list[Claim]]:
    """Return the claims of each table of each paper: the families."""
    tables: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        tables.setdefault((claim.paper, claim.table), []).append(claim)
    return tables


@dataclass(frozen=True)
class Comparisons:
    """Orderings at the points of a sweep: how many there are, how many are reversed, and a text that says where."""

    total: int
    reversed: int
    text: str


def comparisons(claim: Claim, better: Sequence[Ours], worse: Sequence[Ours]) -> Comparisons | None:
    """Compare points of `worse` and `better` at equal values of the settings that both sweep; None without a sweep.

    If `better` has several such points, its best counts. Our means are compared, without a test. A point with a run
    that has no value is left out.
    """
    left, right = _swept(better), _swept(worse)
    if claim.kind not in MESSAGES or not (left | right):
        return None
    sign = -1.0 if claim.direction == "min" else 1.0
    shared, alone = sorted(left & right), sorted(right - left)
    ours, theirs = _points(better, sorted(left | right)), _points(worse, sorted(left | right))
    outcomes: dict[tuple[Any, ...], list[bool]] = {}
    for values, mean in theirs:
        partners = [sign * m for v, m in ours if all(v[name] == values[name] for name in shared)]
        if partners:
            apart = tuple(values[name] for name in alone)
            outcomes.setdefault(apart, []).append(max(partners) < sign * mean)
    each = [reversed_ for several in outcomes.values() for reversed_ in several]
    if len(each) < 2 and len(ours) < 2:  # only the published points
        return None
    parts = [
        f"{', '.join(f'{n}={setting_text(v)}' for n, v in zip(alone, apart, strict=True))}: {sum(all_)} of {len(all_)}"
        for apart, all_ in sorted(outcomes.items(), key=lambda item: [(str(type(v)), v) for v in item[0]])
    ]
    by = f" ({'; '.join(parts)})" if alone else ""
    text = f"{MESSAGES[claim.kind]} in {sum(each)} of {len(each)} comparisons{by}"
    return Comparisons(len(each), sum(each), text)


def _swept(side: Sequence[Ours]) -> set[str]:
    return {name for ours in side for name, kind in ours.group.provenance.items() if kind == SWEPT}


def _points(side: Sequence[Ours], names: Sequence[str]) -> list[Point]:
    return [
        ({name: ours.group.settings.get(name) for name in names}, ours.estimate.mean)
        for ours in side
        if ours.estimate is not None and ours.estimate.mean is not None
        if len(ours.group.done) == len(ours.group.runs)
    ]
