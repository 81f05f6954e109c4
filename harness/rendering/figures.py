"""Figures as SVG and PNG files whose bytes depend on what is drawn and nothing else."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import Any

from harness.foreign import foreign
from harness.report import Figure
from harness.text import harmless

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
    name = file_name(figure.name)
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    with warnings.catch_warnings(), matplotlib.style.context(["default", {**STYLE, "svg.hashsalt": figure.name}]):
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box stands for it
        content = [io.BytesIO(), io.BytesIO()]
        with foreign(f"figure {figure.name!r:.80} was not drawn"):
            canvas = Canvas(figsize=figure.size)
            FigureCanvasAgg(canvas)
            figure.draw(canvas)
            _tame(canvas)
            canvas.savefig(content[0], format="svg", metadata={"Date": None, "Creator": None}, dpi=DPI)
            canvas.savefig(content[1], format="png", metadata={"Software": None}, dpi=DPI)
    for path, stream in zip(paths, content, strict=True):
        path.write_bytes(stream.getvalue())
    return paths


def file_name(name: str) -> str:
    """A figure's name as that of a file: made of names that plugins and runs give, it stays in its folder."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:100] or "figure"


def _tame(canvas: Any) -> None:
    """Take control characters from the words of a figure, and show as they are those that are no formula."""
    from matplotlib.mathtext import MathTextParser
    from matplotlib.text import Text

    parser = MathTextParser("path")
    for text in canvas.findobj(Text):
        words = harmless(text.get_text(), "\n")
        text.set_text(words)
        try:
            if "$" in words:
                parser.parse(words)
        except ValueError:
            text.set_parse_math(False)
