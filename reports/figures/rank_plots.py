"""Rank plots: whether the chains of a run agree in location and in spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from reports.figures.chains import CHAINS, ChainReport, Coordinate, chain_colours, rows
from reports.figures.parts import Array, Panel

BINS = 20
TALLEST = 4.0
"""Height, as a multiple of uniform, at which bars are cut."""


class RankPlots(ChainReport):
    """The ranks of each chain's draws among the draws of all chains of a run, as a histogram for each chain; on the
    right the ranks of |draw - median|.

    Chains that agree have uniform ranks, the dashed line. A chain in another place has a peak; on the right, so does a
    chain that is too wide or too narrow. Of more than 8 chains, the 8 that are least uniform by the sum of squares are
    shown; a single chain is cut into halves.

    Source: A. Vehtari, A. Gelman, D. Simpson, B. Carpenter, P.-C. Buerkner, "Rank-normalization, folding, and
    localization: an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16, 2021, sections 4 and 6.
    """

    name: ClassVar[str] = "rank-plots"
    width: ClassVar[float] = 5.2
    note: ClassVar[str] = (
        "Histograms of the ranks of each chain's draws among those of all chains (left), and of |draw - median| "
        f"(right, folded). Dashed: uniform, as where the chains agree; bars are cut at {TALLEST:g} times that. Of more "
        f"than {CHAINS} chains, the {CHAINS} that are least uniform; a single chain is cut into halves."
    )

    def row(self, panel: Panel) -> float:
        return 0.5 + 0.22 * max(2, min(panel.group.chains, CHAINS))

    def draw(self, canvas: Any, panels: Sequence[Panel], chosen: Sequence[Coordinate], task: Any) -> None:
        titles = [title for one in chosen for title in (one.title, "folded")]
        axes = rows(canvas, panels, titles, "rank (% of all draws)", sharex=True)
        for panel, line in zip(panels, axes, strict=True):
            each = [values for one in chosen for x in (one.draws[panel.label],) for values in (x, folded(x))]
            for ax, values in zip(line, each, strict=True):
                _ridges(ax, *histograms(values), whole=panel.group.chains > 1)
            line[0].set_ylabel("chain" if panel.group.chains > 1 else "half")


def folded(draws: Array) -> Array:
    """Return |x - median| of draws (n, C)."""
    return np.asarray(np.abs(draws - np.median(draws)))


def histograms(draws: Array) -> tuple[NDArray[np.int64], Array]:
    """Return the chains that are shown, and the heights (chains, bins) of their histograms, where 1 is uniform.

    One chain (n, 1) is cut into halves.
    """
    from scipy.stats import rankdata

    x = (
        np.stack([draws[: len(draws) // 2, 0], draws[-(len(draws) // 2) :, 0]], axis=1)
        if draws.shape[1] == 1
        else draws
    )
    bins = int(np.clip(len(x) // 5, 4, BINS))
    bin_of = ((rankdata(x.ravel()) - 0.5) / x.size * bins).astype(int).reshape(x.shape)
    heights = np.stack([np.bincount(chain, minlength=bins) for chain in bin_of.T]) * (bins / len(x))
    shown = np.sort(((heights - 1) ** 2).sum(axis=1).argsort(kind="stable")[::-1][:CHAINS])
    return shown, heights[shown]


def _ridges(ax: Any, chains: NDArray[np.int64], heights: Array, *, whole: bool) -> None:
    edges = np.linspace(0, 100, heights.shape[1] + 1)
    top = min(max(2.0, float(heights.max())), TALLEST)
    for k, (bars, colour) in enumerate(zip(heights, chain_colours(len(chains)), strict=True)):
        base = len(chains) - 1 - k
        ax.stairs(base + 0.9 * np.minimum(bars, top) / top, edges, baseline=base, fill=True, color=colour, alpha=0.75)
        ax.axhline(base + 0.9 / top, color="0.2", linewidth=0.5, linestyle="--")
    names = [str(chain + 1) for chain in chains] if whole else ["1st", "2nd"]
    ax.set_yticks(np.arange(len(chains))[::-1] + 0.3, names, fontsize="x-small")
    ax.set(xlim=(0, 100), ylim=(-0.05, len(chains)))
    ax.tick_params(axis="y", length=0)
