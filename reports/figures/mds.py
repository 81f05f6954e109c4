"""The draws of a run in the space of weights: multidimensional scaling of the distances of their sketches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness import Result
from harness.reports import FieldScore, Figure, Group, Request, Run, Table
from reports.figures.parts import Array, FieldReport, first_done, legend_below, name_panel, panel_figure, record, shown

SHOWN = 200
"""Draws of a run that are shown, evenly spaced; all draws enter the mean distances."""
MARKERS = "osD^vP*X"
NUMBERS = ("within", "between_cycles", "between_chains", "ratio", "stress")


class Scaling(FieldReport):
    """A figure for each field (task, protocol, chains, budget) of runs with sketches, with a panel for each method: the
    draws of the lowest finished seed, at places x_i in the plane whose distances are close to those of the weights,

        minimise sum_{i<j} (|x_i - x_j| - d_ij)^2,   d_ij = |s_i - s_j|, s the sketch of 1,024 numbers

    by scikit-learn's metric SMACOF, from 4 random starts with a fixed seed. Distances of sketches are accurate to some
    4 %. `stress` is sqrt(sum (|x_i - x_j| - d_ij)^2 / sum d_ij^2): below 0.1 the plane shows the distances well.

    within          mean distance of two draws of one cycle of one chain
    between_cycles  that of two draws of one chain in different cycles
    between_chains  that of two draws of different chains
    ratio           of the means between (cycles, or otherwise chains) and within; none for one cluster. It is large if
                    cycles find modes, and about 1 for one cluster

    In many dimensions steps keep going in new directions, so the more steps lie between two draws, the farther apart
    they are: a ratio above 1 alone is no sign of modes. Compare it with the ratio of a run without cycles.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, figure 3 (a).
    """

    name: ClassVar[str] = "mds"

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        panels, missing = _panels(score)
        notes = missing if panels or request.tasks else []
        if not panels:
            return Result(notes=notes)
        records = [panel.record(name) for panel in panels]
        columns = shown("method", seed="", draws="", **dict.fromkeys(NUMBERS, ".3g"))
        note = "distances of sketches of the weights; ratio: between cycles, or else chains, over within"
        table = Table(score.title, columns, records, [note])
        return Result([table], records, [_figure(name, score, panels)], notes)


@dataclass(frozen=True, eq=False)
class ScaledRun:
    """One run: places (n, 2) of the draws shown, with the cycle and chain (n,) of each, and `NUMBERS`."""

    label: str
    group: Group
    run: Run
    places: Array
    cycle: NDArray[np.int64]
    chain: NDArray[np.int64]
    draws: int
    numbers: dict[str, float | None]

    def record(self, figure: str) -> dict[str, Any]:
        """Return a flat record."""
        return record(
            figure, self.group, method=self.label, seed=self.run.seed, draws=self.draws,
            cycles=len(np.unique(self.cycle)), **self.numbers, run_keys=[self.run.key],
        )  # fmt: skip


def _panels(score: FieldScore) -> tuple[list[ScaledRun], list[str]]:
    panels, missing = [], []
    for group in score.groups:
        label, run = score.labels[group.key], first_done(group)
        arrays = score.arrays(run, "sketch", "cycle", "chain") if run else None
        if run is None or arrays is None or len(arrays["sketch"]) < 3:
            missing.append(f"{label}: no finished run with sketches of three draws")
            continue
        cycle, chain = arrays["cycle"], arrays["chain"]
        apart = distances(arrays["sketch"].astype(np.float64))
        shown = np.unique(np.linspace(0, len(apart) - 1, SHOWN).round().astype(int))
        places, stress = scaled(apart[np.ix_(shown, shown)])
        numbers = {**mean_distances(apart, cycle, chain), "stress": stress}
        panels.append(ScaledRun(label, group, run, places, cycle[shown], chain[shown], len(apart), numbers))
    return panels, missing


def _figure(name: str, score: FieldScore, panels: Sequence[ScaledRun]) -> Figure:
    caption = (
        "A point is a draw of all weights; distances in the plane are near those of the weights where the "
        "stress is below 0.1. Colours are cycles, or chains where there is one cycle; markers are chains. Between / "
        "within: the mean distance of draws of different cycles, or else chains, over that of draws of the same."
    )
    return panel_figure(
        name, score, len(panels), lambda canvas, axes: _draw(canvas, axes, panels), caption, panel=(2.7, 2.8),
        margin=(1.0, 0.9), labels=("first axis of the map", "second axis of the map"), least=6.4, shared=(),
    )  # fmt: skip


def _draw(canvas: Any, axes: Sequence[Any], panels: Sequence[ScaledRun]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    cyclic = any(panel.cycle.max() > panel.cycle.min() for panel in panels)
    last = max(int((panel.cycle if cyclic else panel.chain).max()) for panel in panels) + 1
    chains = sorted({int(chain) for panel in panels for chain in panel.chain})
    handles: dict[str, Any] = {}
    for panel, ax in zip(panels, axes, strict=True):
        for chain in np.unique(panel.chain).tolist():
            chosen = panel.chain == chain
            marker = MARKERS[chain % len(MARKERS)]
            number = (panel.cycle if cyclic else panel.chain)[chosen] + 1
            style = {"cmap": "viridis", "vmin": 1, "vmax": max(last, 2), "s": 22, "alpha": 0.8, "linewidths": 0}
            drawn = ax.scatter(*panel.places[chosen].T, c=number, marker=marker, **style)
            if len(chains) <= len(MARKERS):
                handles.setdefault(f"chain {chain + 1}", Line2D([], [], color="0.4", marker=marker, linestyle="none"))
        ratio = panel.numbers["ratio"]
        words = [f"stress {panel.numbers['stress']:.2f}"]
        words += [] if ratio is None else [f"between / within {ratio:.2f}"]
        name_panel(ax, f"{panel.label}, seed {panel.run.seed}", ", ".join(words))
        ax.set_aspect("equal", adjustable="datalim")
        ax.margins(0.1)
        ax.locator_params(nbins=4)
    if last > 1:
        bar = canvas.colorbar(drawn, ax=axes, label="cycle" if cyclic else "chain", shrink=0.9, pad=0.02)
        bar.locator = MaxNLocator(integer=True, nbins=8)
    if len(handles) > 1:
        legend_below(canvas, handles)


def distances(points: Array) -> Array:
    """Return the Euclidean distances (n, n) of points (n, d)."""
    from scipy.spatial.distance import pdist, squareform

    return np.asarray(squareform(pdist(points)))


def scaled(apart: Array) -> tuple[Array, float]:
    """Return places (n, 2) for distances (n, n), along their principal axes, and the stress."""
    from sklearn.manifold import smacof

    scale = apart.max() or 1.0
    places, _ = smacof(
        apart / scale, metric=True, n_components=2, n_init=4, max_iter=500, eps=1e-6, random_state=0,
        normalized_stress=False,
    )  # fmt: skip
    places = (places - places.mean(0)) * scale
    _, _, axes = np.linalg.svd(places, full_matrices=False)
    places = places @ axes.T
    places *= np.where(places[np.abs(places).argmax(0), [0, 1]] < 0, -1, 1)
    error = ((distances(places) - apart) ** 2).sum() / ((apart**2).sum() or 1.0)
    return places, float(np.sqrt(error))


def mean_distances(apart: Array, cycle: NDArray[Any], chain: NDArray[Any]) -> dict[str, float | None]:
    """Return the mean distances within cycles, between cycles and between chains, and the ratio; None without pairs."""
    upper = np.triu(np.ones(apart.shape, dtype=bool), 1)
    same_chain, same_cycle = chain[:, None] == chain, cycle[:, None] == cycle
    pairs = {
        "within": upper & same_chain & same_cycle,
        "between_cycles": upper & same_chain & ~same_cycle,
        "between_chains": upper & ~same_chain,
    }
    means = {name: float(apart[chosen].mean()) if chosen.any() else None for name, chosen in pairs.items()}
    between = means["between_cycles"] or means["between_chains"]
    return {**means, "ratio": between / means["within"] if between and means["within"] else None}
