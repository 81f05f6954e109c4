"""Intervals of rows as bars, on one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from plugins.nights.site.model import SiteRow


class Bar(NamedTuple):
    """The positions of an interval and its point, in percent of the width."""

    low: float
    point: float
    high: float


def bars(rows: Sequence[SiteRow]) -> dict[str, Bar]:
    """Return the intervals of rows on one scale, by group key; it is logarithmic if all values are positive."""
    known = [row for row in rows if row.mean is not None and math.isfinite(row.mean)]
    ends = {row.key: _ends(row) for row in known}
    values = [value for three in ends.values() for value in three]
    if not values:
        return {}
    scale = math.log if min(values) > 0 else float
    low, high = scale(min(values)), scale(max(values))
    span = high - low or 1.0
    return {
        key: Bar(*(round(3 + 94 * (scale(value) - low) / span, 2) for value in three)) for key, three in ends.items()
    }


def _ends(row: SiteRow) -> tuple[float, float, float]:
    """Return the lower end, the value and the upper end; a missing or not positive end is replaced by the value."""
    assert row.mean is not None
    low, high = (
        row.mean if end is None or not math.isfinite(end) or (row.mean > 0 >= end) else end
        for end in (row.low, row.high)
    )
    return low, row.mean, high
