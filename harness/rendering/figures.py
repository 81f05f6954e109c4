"""Figures as SVG and PNG files whose bytes depend on what is drawn and nothing else."""

from __future__ import annotations

from pathlib import Path

from harness.report import Figure

STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "svg.fonttype": "path",
}
DPI = 160


def save(figure: Figure, folder: Path) -> list[Path]:
    """Draw a figure and write NAME.svg and NAME.png into a folder; returns both paths."""
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{figure.name}.svg", folder / f"{figure.name}.png"]
    with matplotlib.style.context(["default", {**STYLE, "svg.hashsalt": figure.name}]):
        canvas = Canvas(figsize=figure.size)
        FigureCanvasAgg(canvas)
        figure.draw(canvas)
        canvas.savefig(paths[0], metadata={"Date": None, "Creator": None}, dpi=DPI)
        canvas.savefig(paths[1], metadata={"Software": None}, dpi=DPI)
    return paths
