"""The test whether a claim's ordering also holds at the other points of a declared sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.reports import setting_text
from plugins.papers.reported import SWEPT

if TYPE_CHECKING:
    from plugins.papers.claims import Claim, Ours

MESSAGES = {
    "ordering": "its declared sweep reverses it",
    "equality": "in its declared sweep the second has the better value",
}
Point = tuple[dict[str, Any], float]
"""The values of the settings that are swept, and our mean at them."""


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
