"""Figures as SVG and PNG files; equal figures give equal bytes."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Container
from typing import Any

from harness.contracts.plugin_errors import plugin_code
from harness.reporting.report import Figure
from harness.system.text import harmless

STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "svg.fonttype": "path",
}
DPI = 160
METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
"""Kinds of files, and the metadata left out of each, so that bytes do not depend on date or version."""


def files(figure: Figure, name: str) -> dict[str, bytes]:
    """Draw a figure and return the contents of NAME.svg and NAME.png."""
    return {f"{name}.{kind}": content for kind, content in zip(METADATA, drawn(figure, *METADATA), strict=True)}


def drawn(figure: Figure, *kinds: str) -> list[bytes]:
    """Draw a figure and return the contents of a file for each kind, "svg" or "png"."""
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    contents = []
    with warnings.catch_warnings(), matplotlib.style.context(["default", {**STYLE, "svg.hashsalt": figure.name}]):
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box stands for it
        with plugin_code(f"figure {figure.name!r:.80} was not drawn"):
            canvas = Canvas(figsize=figure.size)
            FigureCanvasAgg(canvas)
            figure.draw(canvas)
            _tame(canvas)
            for kind in kinds:
                in_memory = io.BytesIO()
                canvas.savefig(in_memory, format=kind, metadata=METADATA[kind], dpi=DPI)
                contents.append(in_memory.getvalue())
    return contents


def file_name(name: str) -> str:
    """A figure's name as a safe file name, without path separators."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:100] or "figure"


def unused(name: str, taken: Container[str]) -> str:
    """The file name of a figure, with a number if another figure has the same name."""
    slug, number = file_name(name), 1
    found = slug
    while found in taken:
        number += 1
        found = f"{slug}-{number}"
    return found


def _tame(canvas: Any) -> None:
    """Remove links and control characters from a figure; a text that is not a formula is shown as it is."""
    from matplotlib.collections import Collection
    from matplotlib.mathtext import MathTextParser
    from matplotlib.text import Text

    for artist in canvas.findobj():
        artist.set_url(None)
        if isinstance(artist, Collection):
            artist.set_urls(None)
    parser = MathTextParser("path")
    for text in canvas.findobj(Text):
        words = harmless(text.get_text(), "\n")
        text.set_text(words)
        try:
            if "$" in words:
                parser.parse(words)
        except ValueError:
            text.set_parse_math(False)
