"""The figure of docs/benchmarks.md, SVG and PNG: throughput by number of chains."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb")
STYLE = {"svg.hashsalt": "benchmarks", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def throughput(rates: Mapping[str, Mapping[int, float]], limit: float, path: Path) -> None:
    """Million chain-steps a second over the number of chains, a line a library, and the limit of the machine."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
        for (name, points), colour in zip(rates.items(), COLOURS, strict=False):
            chains = sorted(points)
            axes.plot(chains, [points[c] for c in chains], "o-", color=colour, label=name, markersize=4)
        axes.axhline(limit, color="black", linewidth=0.8, linestyle="--", label="limit of one core")
        axes.set(xscale="log", yscale="log", xlabel="chains", ylabel="million chain-steps a second")
        ticks = sorted({c for points in rates.values() for c in points})
        axes.set_xticks(ticks, [f"{c:,}" for c in ticks])
        axes.minorticks_off()
        axes.set_title("SGLD on mixture25, float64, every state kept", fontsize=10)
        axes.legend(frameon=False, fontsize=8)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=120, metadata={"Software": None})
        plt.close(figure)
