"""Figures as SVG, PNG and PDF files. Equal figures give equal bytes."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import textwrap
import warnings
from collections.abc import Container, Iterator
from typing import Any

from harness.contracts.plugin_errors import plugin_code
from harness.reporting.tables import Figure
from harness.system.text import harmless

STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "pdf.fonttype": 42,  # TrueType, which journals ask for
    "svg.fonttype": "path",
}
DPI = 160
LIMIT = 500_000
"""Largest size of an SVG or PDF file in bytes. A larger file is saved again with more of it as pixels, and coarser."""
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Kinds of files, and the metadata left out of each, so that the bytes do not depend on the date or a version."""
COARSER = ((DPI, 12_000), (90, 5_000), (50, 1_500), (36, 500))
"""Pairs of dots per inch and most points that stay vectors, at about 20 bytes each. The first that keeps to `LIMIT` is
used.
"""
FEWEST = 50
"""Fewest points of an artist that becomes pixels. Fewer points are smaller than an image, and a figure has thousands of
ticks.
"""


def drawn(figure: Figure, *kinds: str) -> list[bytes]:
    """Draw a figure and return the contents of a file for each kind in `METADATA`."""
    with _style(figure):
        canvas = picture(figure)
        with plugin_code(f"figure {figure.name!r:.80} was not drawn"):
            contents = [_saved(canvas, kind) for kind in kinds]
    return contents


def _saved(canvas: Any, kind: str) -> bytes:
    for dpi, points in COARSER if kind != "png" else [(DPI, 0)]:
        if kind != "png":
            _rasterise(canvas, points)
        in_memory = io.BytesIO()
        canvas.savefig(in_memory, format=kind, metadata=METADATA[kind], dpi=dpi)
        if in_memory.tell() <= LIMIT:
            break
    return in_memory.getvalue()


def picture(figure: Figure) -> Any:
    """Draw a figure and return it as a matplotlib Figure."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    with _style(figure), plugin_code(f"figure {figure.name!r:.80} was not drawn"):
        canvas = Canvas(figsize=figure.size)
        FigureCanvasAgg(canvas)
        figure.draw(canvas)
        if figure.title is not None:
            width = int(figure.size[0] / 0.09)  # inches per character
            canvas.suptitle("\n".join(textwrap.wrap(figure.title, width)), fontsize="medium")
        _sanitise(canvas)
        figure.arrange(canvas)
        layout = canvas.get_layout_engine()
        for _ in range(2 if any(ax.get_aspect() != "auto" for ax in canvas.axes) else 1):
            layout.execute(canvas)  # axes with a fixed aspect get their place after titles and legends
        with mpl.rc_context({"figure.constrained_layout.use": False}):
            canvas.set_layout_engine(None)  # with a layout, even a finished one, each file would be drawn twice
    return canvas


@contextlib.contextmanager
def _style(figure: Figure) -> Iterator[None]:
    import matplotlib.style

    with warnings.catch_warnings(), matplotlib.style.context(["default", {**STYLE, "svg.hashsalt": figure.name}]):
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box is drawn for it
        yield


def file_name(name: str) -> str:
    """Return a figure's name as a safe file name, without path separators."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:100] or "figure"


def unused(name: str, taken: Container[str]) -> str:
    """Return the file name of a figure, with a number if another figure has the same name."""
    names = (f"{file_name(name)}{suffix}" for suffix in itertools.chain([""], (f"-{k}" for k in itertools.count(2))))
    return next(candidate for candidate in names if candidate not in taken)


def _sanitise(canvas: Any) -> None:
    """Remove links and control characters from a figure. A text that is not a valid formula is shown unchanged."""
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
            for line in words.splitlines() if "$" in words else []:
                parser.parse(line)
        except ValueError:
            text.set_parse_math(False)


def _rasterise(canvas: Any, most: int) -> None:
    """Turn the artists with the most points into pixels, until the others have at most `most` points."""
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    drawn = canvas.findobj(lambda artist: isinstance(artist, Line2D | Collection | Patch))
    sizes = [(_points(artist), artist) for artist in drawn]
    left = sum(size for size, _ in sizes)
    for size, artist in sorted(sizes, key=lambda one: -one[0]):
        if left <= most or size < FEWEST:
            break
        artist.set_rasterized(True)
        left -= size


def _points(artist: Any) -> int:
    """Count the points of an artist's outline, and four for each marker, because a marker takes about 80 bytes."""
    from matplotlib.collections import Collection

    if not isinstance(artist, Collection):
        markers = getattr(artist, "get_marker", lambda: "None")() not in {"None", "", " ", None}
        return len(artist.get_path().vertices) * (5 if markers else 1)
    return max(sum(len(path.vertices) for path in artist.get_paths()), 4 * len(artist.get_offsets()))
