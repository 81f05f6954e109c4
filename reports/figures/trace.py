"""Traces: the draws of each chain in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from reports.figures.chains import CHAINS, ChainReport, Coordinate, chain_colours, rows, some
from reports.figures.parts import Panel, legend_below

POINTS = 150
"""Draws of a chain that are drawn, evenly spaced: five methods stay lines, which are sharper and drawn sooner than
pixels.
"""


class Trace(ChainReport):
    """The kept draws of single runs against the step that made them, with a line for each chain.

    At most 8 chains are shown, evenly spaced, and of longer chains 150 evenly spaced draws. If the truth is known, its
    mean and two standard deviations are shown.
    """

    name: ClassVar[str] = "trace"
    note: ClassVar[str] = (
        f"Lines: chains, at most {CHAINS}, evenly spaced; of longer chains {POINTS:,} evenly spaced draws. Grey: the "
        "mean of the target and two standard deviations on either side."
    )

    def draw(self, canvas: Any, panels: Sequence[Panel], chosen: Sequence[Coordinate], task: Any) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        axes = rows(canvas, panels, [one.title if one.why else "" for one in chosen], "step", sharey="col")
        colours = chain_colours(len(some(panels[0].group.chains)))
        for panel, line in zip(panels, axes, strict=True):
            at = np.unique(np.linspace(0, len(panel.steps) - 1, POINTS).round().astype(int))
            for one, ax in zip(chosen, line, strict=True):
                if one.truth:
                    mean, sd = one.truth
                    ax.axhspan(mean - 2 * sd, mean + 2 * sd, color="0.92", linewidth=0, zorder=0)
                    ax.axhline(mean, color="0.6", linewidth=0.8, zorder=1)
                for colour, chain in zip(colours, some(panel.group.chains), strict=True):
                    ax.plot(panel.steps[at], one.draws[panel.label][at, chain], color=colour, linewidth=0.5, alpha=0.8)
                ax.set_ylabel(one.name)
                ax.margins(x=0)
                ax.xaxis.set_major_formatter("{x:,.0f}")
                ax.locator_params(axis="x", nbins=5)
        shown = some(panels[0].group.chains)
        handles: dict[str, Any] = {
            f"chain {chain + 1}": Line2D([], [], color=colour) for chain, colour in zip(shown, colours, strict=True)
        }
        if chosen[0].truth:
            handles["target: mean, 2 sd"] = Patch(facecolor="0.92", edgecolor="0.6")
        legend_below(canvas, handles)
