"""The autocorrelation of the draws of single runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from harness import diagnostics
from reports.figures.chains import ChainReport, Coordinate
from reports.figures.parts import Panel, legend_below, sparse
from reports.figures.styles import looks

LOW = 0.05
"""The axis ends where the autocorrelations of all methods stay below this value."""
LAGS = 400
"""Lags that are drawn, evenly spaced, beside the first 50."""


class Autocorrelation(ChainReport):
    """The autocorrelation of all chains of a run together against the lag in kept draws, one line per method:

        rho_t = 1 - (W - mean over chains of the autocovariance at lag t) / var+,

    where W is the variance within chains and var+ that of all: if the chains disagree it does not fall to 0. The faint
    band goes from the lowest to the highest single chain. The lag counts kept draws: methods that keep every n-th step
    have lags of n steps.

    Source: A. Vehtari et al., Bayesian Analysis 16, 2021, equation 10.
    """

    name: ClassVar[str] = "autocorrelation"
    each_row: ClassVar[float] = 0
    note: ClassVar[str] = (
        "Lines: the autocorrelation of all chains together, which stays above 0 where the chains disagree; bands: from "
        "the lowest to the highest chain by itself. Lags count kept draws."
    )

    def draw(self, canvas: Any, panels: Sequence[Panel], chosen: Sequence[Coordinate], task: Any) -> None:
        axes = canvas.subplots(1, len(chosen), squeeze=False, sharey=True)[0]
        styles = looks([panel.label for panel in panels])
        handles: dict[str, Any] = {}
        for one, ax in zip(chosen, axes, strict=True):
            pooled = {label: diagnostics.autocorrelation(x[:, :, None])[:, 0] for label, x in one.draws.items()}
            end = min(max(_last_high(rho) for rho in pooled.values()), max(len(rho) // 2 for rho in pooled.values()))
            ax.axhline(0, color="0.6", linewidth=0.8)
            for label, rho in pooled.items():
                at = np.unique([*range(50), *np.linspace(0, end, LAGS).round().astype(int)])
                at = at[at <= min(end, len(rho) - 1)]
                chains = one.draws[label].T
                each = np.stack([diagnostics.autocorrelation(chain[:, None, None])[at, 0] for chain in chains])
                style = styles[label]
                if len(chains) > 1:
                    ends = each.min(axis=0), each.max(axis=0)
                    ax.fill_between(at, *ends, color=style["color"], alpha=0.1, linewidth=0)
                (handles[label],) = ax.plot(at, rho[at], linewidth=1.3, **sparse(len(at), style))
            ax.set(xlabel="lag (kept draws)", xlim=(0, end), ylim=(max(ax.get_ylim()[0], -0.5), 1.02))
            ax.set_title(one.title, fontsize="small")
        axes[0].set_ylabel("autocorrelation")
        legend_below(
            canvas,
            dict(sorted(handles.items())),
            "Lines: all chains together; bands: from the lowest single chain to the highest",
        )


def _last_high(rho: Any) -> int:
    """Return a lag a little after the first at which the autocorrelation is low."""
    low = np.flatnonzero(rho < LOW)
    return max(20, int(1.5 * (low[0] if len(low) else len(rho) // 2)))
