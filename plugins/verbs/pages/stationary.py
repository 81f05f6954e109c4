"""The stationary variance of a sampler against x = h lambda: exact where it is linear, else the reason why not."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from harness.engine.linear import at_work, derive
from plugins.laws.law import heat

if TYPE_CHECKING:
    from harness.contracts.sampler import Sampler

NOISE = 1.0
"""V / (lambda T) of the second curve, V being the variance of a coordinate of the stochastic gradient."""

SHOWN = (1e-4, 1e-3, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of the stability limit in the small table."""

ENDLESS = 10.0
"""Where x ends for a sampler that is stable everywhere."""

Point = tuple[float, float, float]


def reach(limit: float | None) -> float:
    """The x that a curve ends before."""
    return ENDLESS if limit is None or math.isinf(limit) else limit


def curve(sampler: Sampler, xs: Iterable[float]) -> list[Point]:
    """(x, lambda var(theta)/T with exact gradients, the same with gradient noise) where there is a stationary law.

    On U = theta^2 / 2 at T = 1. Adaptive entries are held where a chain that stays near theta = 1 takes them.
    """
    T, sampler = heat(sampler, 1.0), at_work(sampler)
    points = []
    for x in xs:
        step = derive(sampler, x, T)
        exact, noisy = step.stationary(), step.stationary(NOISE * T)
        if exact is not None and noisy is not None:
            points.append((x, float(exact[0, 0]) / T, float(noisy[0, 0]) / T))
    return points


def limit_bias(sampler: Sampler, limit: float | None) -> float | None:
    """lambda var/T as h goes to 0, with adaptive entries held as in `curve`."""
    points = curve(sampler, [1e-6 * reach(limit)]) if sampler.adaptive and sampler.limit_bias() else []
    return float(f"{points[0][1]:.4g}") if points else sampler.limit_bias()


def table(sampler: Sampler, limit: float | None) -> list[dict[str, str]]:
    """The small table, a row for each x; the numbers in four digits."""
    points = curve(sampler, (share * reach(limit) for share in SHOWN))
    return [
        {"x": f"{x:.3g}", "lambda var/T": _digits(exact), "with V = lambda T": _digits(noisy)}
        for x, exact, noisy in points
    ]


def _digits(value: float) -> str:
    """Four digits; what is nothing but rounding is 0."""
    return "0" if abs(value) < 1e-12 else f"{value:.4g}"
