"""Small charts of numbers with intervals, as geometry for inline SVG; the style sheet defines their colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from plugins.nights.site.model import Series, SiteRow

WIDTH, HEIGHT, EDGE = 320.0, 96.0, 8.0
"""Size of the chart of a metric's history, in units of its view box; EDGE is free on every side."""


class Bar(NamedTuple):
    """The positions of an interval and its point, in percent of the width."""

    low: float
    point: float
    high: float


@dataclass(frozen=True)
class Mark:
    """A night in a chart."""

    x: float
    y: float
    low: float
    high: float
    changed: bool


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


def marks(series: Series) -> list[Mark]:
    """Return the nights of a series within the view box, from left to right."""
    points = series.points
    low, high = limits(series)
    span = high - low or 1.0

    def y(value: float) -> float:
        return round(HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (value - low) / span, 2)

    step = (WIDTH - 2 * EDGE) / max(len(points) - 1, 1)
    return [
        Mark(round(EDGE + i * step, 2), y(point.mean), y(point.low), y(point.high), point.changed)
        for i, point in enumerate(points)
    ]


def limits(series: Series) -> tuple[float, float]:
    """Return the lowest and the highest end of an interval."""
    return min(point.low for point in series.points), max(point.high for point in series.points)
