"""The two figures of BENCHMARKS.md, SVG and PNG: throughput by number of chains, and where the time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parts import PARTS

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
        _save(figure, path)
        plt.close(figure)


def profile(rows: Sequence[Mapping[str, Any]], floor: float, path: Path) -> None:
    """A bar a (mode, chains): share of the time by part; its length in nanoseconds and the limit stand beside it."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.6, 0.42 * len(rows) + 1.4), layout="constrained")
        labels = []
        for y, row in enumerate(rows):
            left, total = 0.0, sum(row["parts"].values())
            for part, colour in zip(PARTS, COLOURS, strict=True):
                width = 100 * row["parts"][part] / total
                axes.barh(y, width, left=left, color=colour, height=0.7, label=part if y == 0 else None)
                left += width
            axes.text(101, y, f"{total:,.0f} ns, {floor / total:.1%} of the limit", va="center", fontsize=8)
            labels.append(f"{row['mode']}, {row['chains']:,} chain{'s' if row['chains'] > 1 else ''}")
        axes.set_yticks(range(len(rows)), labels)
        axes.invert_yaxis()
        axes.set(xlim=(0, 140), xlabel="% of the time of a run")
        axes.set_xticks(range(0, 101, 20))
        axes.legend(
            ncols=len(PARTS),
            frameon=False,
            fontsize=8,
            columnspacing=1,
            handlelength=1,
            loc="lower left",
            bbox_to_anchor=(0, 1),
        )
        _save(figure, path)
        plt.close(figure)


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=120, metadata={"Software": None})
