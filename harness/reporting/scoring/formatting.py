"""Format the numbers of an estimate for people."""

from __future__ import annotations

import math

from harness.reporting.scoring.estimates import Estimate

LARGE, SMALL = 1e7, 1e-7
"""Limits beyond which numbers are written as powers of ten."""

PLUS_MINUS = "\N{PLUS-MINUS SIGN}"


def number(value: float) -> str:
    """Return a number with three significant digits and separated thousands: "0.0123", "17.6", "12,300", "inf"."""
    if not math.isfinite(value):
        return "inf" if value > 0 else "-inf"
    if value and not 1e-4 <= abs(value) < LARGE:
        return f"{value:.2e}"
    return f"{value:,.{_decimals(value, 3)}f}"


def with_interval(estimate: Estimate | None, limit: float | None = None) -> str:
    """Return an estimate with its interval, or "-" for no value.

    A t interval is "17.6 ± 1.1", any other interval "120 [95, 160]". If all seeds agree, the text is "1 (all)".
    `limit` is the budget that an infinite cost exceeds: ">50,000".
    """
    if estimate is None:
        return "-"
    mean, low, high = estimate.mean, estimate.low, estimate.high
    if mean is None:
        return estimate.remark or "-"
    if estimate.interval.startswith("t ") and low is not None and high is not None:
        return _with_half(mean, (high - low) / 2)
    if low is None or high is None:
        return _limited(mean, limit)
    if low == high:
        return f"{_limited(mean, limit)} (all)" if estimate.interval == "range" else _limited(mean, limit)
    return f"{_limited(mean, limit)} [{_limited(low, limit)}, {_limited(high, limit)}]"


def _with_half(mean: float, half: float) -> str:
    if abs(mean) >= LARGE or half >= LARGE or 0 < half < SMALL:
        return f"{mean:.2e} {PLUS_MINUS} {half:.1e}"
    digits = _decimals(half, 2)
    return f"{mean:,.{digits}f} {PLUS_MINUS} {half:,.{digits}f}"


def _limited(value: float, limit: float | None) -> str:
    return f">{number(limit)}" if value == math.inf and limit is not None else number(value)


def _decimals(value: float, digits: int) -> int:
    """Return how many decimals show `digits` significant digits of a value: 0 for large values, at most 8."""
    if not value or not math.isfinite(value):
        return 0
    return min(max(digits - 1 - math.floor(math.log10(abs(value))), 0), 8)
