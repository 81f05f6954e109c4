"""The growth of the effective sample size of single runs with the number of draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from harness import diagnostics
from reports.figures.chains import FEWEST, ChainReport, Coordinate
from reports.figures.parts import Array, Panel, legend_below
from reports.figures.styles import looks

POINTS = 12


class EssDraws(ChainReport):
    """Bulk and tail ESS of the first n draws of all chains against n, one line per method.

    Both grow in proportion to n if the chains mix; a bulk ESS that levels off shows that the chains are in different
    places. The dotted line is that of independent draws.

    Source: A. Vehtari et al., Bayesian Analysis 16, 2021, section 6.
    """

    name: ClassVar[str] = "ess-draws"
    each_row: ClassVar[float] = 0
    note: ClassVar[str] = (
        "Of the first draws of all chains: bulk ESS as solid lines, tail ESS as dashed lines. Dotted: independent "
        "draws. A line that levels off shows chains that disagree."
    )

    def draw(self, canvas: Any, panels: Sequence[Panel], chosen: Sequence[Coordinate], task: Any) -> None:
        from matplotlib.lines import Line2D

        axes = canvas.subplots(1, len(chosen), squeeze=False, sharey=True)[0]
        styles = looks([panel.label for panel in panels])
        handles: dict[str, Any] = {}
        for one, ax in zip(chosen, axes, strict=True):
            for label, draws in one.draws.items():
                counts, bulk, tail = growth(draws)
                style = {**styles[label], "markersize": 4, "linewidth": 1.3}
                (handles[label],) = ax.plot(counts, bulk, **style)
                ax.plot(counts, tail, **{**style, "linestyle": "--", "marker": "", "linewidth": 0.9})
            ends = np.array([FEWEST * panels[0].group.chains, max(panel.count for panel in panels)])
            ax.plot(ends, ends, color="0.5", linestyle=":")
            ax.set(xscale="log", yscale="log", xlabel="draws of all chains")
            ax.set_title(one.title, fontsize="small")
        axes[0].set_ylabel("effective sample size (draws)")
        kinds = {"bulk": "-", "tail": "--", "independent draws": ":"}
        handles = dict(sorted(handles.items()))
        handles |= {name: Line2D([], [], color="0.4", linestyle=stroke) for name, stroke in kinds.items()}
        legend_below(canvas, handles)


def growth(draws: Array) -> tuple[Array, Array, Array]:
    """Return numbers of draws of all chains, and the bulk and tail ESS of these draws (n, C); NaN if constant."""
    lengths = np.unique(np.geomspace(min(FEWEST, len(draws)), len(draws), POINTS).round().astype(int))
    bulk, tail = (
        np.array([size(draws[:n, :, None])[0] for n in lengths])
        for size in (diagnostics.bulk_ess, diagnostics.tail_ess)
    )
    return lengths * float(draws.shape[1]), bulk, tail
