"""The stationary variance of a sampler as a function of x = h lambda, exact for a linear one: a table and a figure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from harness import Sampler, linear
from harness.reports import Figure
from plugins.checking.law import heat

NOISE = 1.0
"""V / (lambda T) of the second curve, where V is the variance of a coordinate of the stochastic gradient."""

SHOWN = (1e-4, 1e-3, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of the stability limit in the table."""

SHARES = np.concatenate([np.geomspace(1e-4, 0.5, 32), np.linspace(0.5, 0.985, 24)[1:]])
"""Shares of the stability limit in the figure; the curves are steep at their ends."""

ENDLESS = 10.0
"""The largest x for a sampler that is stable everywhere."""

HIGHEST = 3.0
"""Upper end of the figure; every curve goes to infinity at the stability limit."""

Point = tuple[float, float, float]


def reach(limit: float | None) -> float:
    """Return the x at which a curve ends: the stability limit, or ENDLESS if there is none."""
    return ENDLESS if limit is None or math.isinf(limit) else limit


def curve(sampler: Sampler, xs: Iterable[float]) -> list[Point]:
    """Return (x, lambda var(theta)/T with exact gradients, the same with gradient noise) where a stationary law exists.

    On U = theta^2 / 2 at T = 1. Adaptive entries are held at the values that they have in a chain near theta = 1.
    """
    T, sampler = heat(sampler, 1.0), linear.at_work(sampler)
    points = []
    for x in xs:
        step = linear.derive(sampler, x, T)
        exact, noisy = step.stationary(), step.stationary(NOISE * T)
        if exact is not None and noisy is not None:
            points.append((x, float(exact[0, 0]) / T, float(noisy[0, 0]) / T))
    return points


def limit_bias(sampler: Sampler, limit: float | None) -> float | None:
    """Return lambda var/T as h goes to 0, with adaptive entries held as in `curve`."""
    points = curve(sampler, [1e-6 * reach(limit)]) if sampler.adaptive and sampler.limit_bias() else []
    return float(f"{points[0][1]:.4g}") if points else sampler.limit_bias()


def table(sampler: Sampler, limit: float | None) -> list[dict[str, str]]:
    """Return the small table with one row for each x, its numbers in four digits."""
    points = curve(sampler, (share * reach(limit) for share in SHOWN))
    return [
        {"x": f"{x:.3g}", "lambda var/T": _digits(exact), "with V = lambda T": _digits(noisy)}
        for x, exact, noisy in points
    ]


def _digits(value: float) -> str:
    """Return four digits; a number that is only rounding is 0."""
    return "0" if abs(value) < 1e-12 else f"{value:.4g}"


def figure(name: str, sampler: Sampler, limit: float | None, bias: float) -> Figure:
    """Return the figure of both curves, the limit as h -> 0, and the target, which is 1."""
    points = curve(sampler, SHARES * reach(limit))

    def draw(canvas: Any) -> None:
        axes = canvas.subplots()
        x, exact, noisy = zip(*points, strict=True)
        axes.axhline(1, color="0.6", linewidth=0.8, label="target")
        if bias != 1:
            axes.axhline(bias, color="tab:red", linewidth=0.8, linestyle="--", label=rf"limit as h $\to$ 0: {bias:.4g}")
        axes.plot(x, exact, color="tab:blue", label="exact gradients")
        axes.plot(x, noisy, color="tab:orange", label=r"gradient noise, V = $\lambda$ T")
        if limit is not None and np.isfinite(limit):
            axes.axvline(limit, color="0.3", linewidth=0.8, linestyle=":", label=f"stability limit: {limit:.4g}")
        top = HIGHEST * max(1.0, bias)
        axes.set(xscale="log", ylim=(0, min(top, 1.1 * max(*exact, *noisy, 1.0))), xlabel=r"x = h $\lambda$")
        axes.set_ylabel(r"$\lambda$ var($\theta$) / T")
        axes.legend(frameon=False, fontsize="small", loc="best")

    return Figure(name, draw, (6.0, 3.4), f"{name}: stationary variance")
