"""The figure of a sampler's page: its exact stationary variance against x = h lambda."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from harness.reporting.report import Figure
from plugins.verbs.pages.stationary import curve, reach

if TYPE_CHECKING:
    from harness.contracts.sampler import Sampler
    from plugins.verbs.pages.stationary import Point

SHARES = np.concatenate([np.geomspace(1e-4, 0.5, 32), np.linspace(0.5, 0.985, 24)[1:]])
"""Of the stability limit, where the curves have points: their ends are steep."""

HIGHEST = 3.0
"""Where the picture ends above; every curve goes to infinity at the stability limit."""


def stationary(name: str, sampler: Sampler, limit: float | None, bias: float) -> Figure:
    """Both curves, the limit as h -> 0, and the target, which is 1."""
    points = curve(sampler, SHARES * reach(limit))
    return Figure(
        name=name,
        draw=lambda canvas: _draw(canvas, points, limit, bias),
        size=(6.0, 3.4),
        caption=f"{name}: stationary variance",
    )


def _draw(canvas: Any, points: list[Point], limit: float | None, bias: float) -> None:
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
