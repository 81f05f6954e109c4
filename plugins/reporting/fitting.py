"""Figures at the sizes of a paper: fonts that can be read, nothing clipped, no text over another."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from harness import UsageError
from harness.reports import Figure

WIDTHS = {"column": 3.25, "text": 5.5, "wide": 6.75}
"""Inches: a column of a paper with two columns, the text of one with one column, and both columns."""
LEAST, GREATEST = 5.5, 24.0
"""Points of the smallest text, and of the largest font."""
NARROWEST, CROWDED, MANY = 1.3, 0.85, 4
"""Inches: narrower panels are stacked; if they are more than `MANY`, only those narrower than `CROWDED`."""
OVERHEAD = 1.0
"""About the inches of a figure's height that its title, legend and labels take."""
LOWEST, STACKED = 0.55, 0.8
"""Least height of a panel in inches; greatest one of stacked panels, as a multiple of their width."""
SHORTEST, FEWEST = 0.9, 8
"""Inches of the lines into which labels of an upright axis are wrapped at least, and characters of all lines."""
LEVEL = 0.6
"""Least height of the panels of a single row, as a multiple of their width."""
LINE = 1.35
"""Height of a line of text, as a multiple of its font."""


def fitted(figure: Figure, width: float, height: float | None, points: float | None) -> Figure:
    """Return a figure that is drawn `width` inches wide with a font of `points`, by default 8 to 10 by the width.

    Panels that would be too narrow are stacked, and long texts are wrapped. If no height is given it follows from the
    panels, which keep their shape. Drawing it raises `UsageError` if there is no room for the panels.
    """
    size = points or min(max(8 + (width - WIDTHS["column"]) / 2, 8.0), 10.0)

    def draw(canvas: Any) -> None:
        import matplotlib as mpl

        mpl.rcParams["font.size"] = size  # the renderer restores it
        figure.draw(canvas)

    def arrange(canvas: Any) -> None:
        if not _Page(canvas, figure.size).fit(height):
            raise UsageError(
                f"figure {figure.name!r:.80} has no room in {width:g} x {canvas.get_figheight():.3g} inches with a "
                f"font of {size:g} points; give a larger --size or a smaller --font-size"
            )

    return replace(figure, draw=draw, arrange=arrange, size=(width, height or figure.size[1]))


class _Page:
    """A drawn figure whose own size is (width, height): its panels by (row, column), and its texts as they were."""

    def __init__(self, canvas: Any, drawn_size: tuple[float, float]) -> None:
        from matplotlib.text import Text

        self.canvas, self.room = canvas, False
        for text in canvas.findobj(Text):
            text.set_fontsize(max(text.get_fontsize(), LEAST))
        for ax in [ax for ax in canvas.axes if ax.get_subplotspec() and not ax.axison and not ax.has_data()]:
            ax.remove()  # the empty end of a grid
        self.specs = {ax: ax.get_subplotspec() for ax in canvas.axes if ax.get_subplotspec()}
        self.places = {ax: (spec.rowspan.start, spec.colspan.start) for ax, spec in self.specs.items()}
        grids = list(dict.fromkeys(spec.get_gridspec() for spec in self.specs.values()))
        self.rows: int = grids[0].nrows if grids else 1
        self.columns: int = grids[0].ncols if grids else 1
        ratios = grids[0].get_height_ratios() if grids else [1]
        self.shapes = [
            (drawn_size[1] - OVERHEAD) * ratio / sum(ratios) / (0.85 * drawn_size[0] / self.columns) for ratio in ratios
        ]
        """Height over width of the panels of each row, by the figure's own size."""
        if self.rows == 1:
            self.shapes = [max(self.shapes[0], LEVEL)]
        simple = len(grids) == 1 and all(len(s.rowspan) == len(s.colspan) == 1 for s in self.specs.values())
        self.choices = range(self.columns, 0, -1) if simple else [self.columns]
        self.titled = all(ax.get_title() for ax in self.places)
        self.equal = [ax for ax in self.places if ax.get_aspect() == 1 and ax.get_adjustable() == "box"]
        for ax in self.equal:  # the layout has no room for the labels of a panel that does not fill its cell
            ax.set_aspect("auto")
        self.now, self.high = self.places, dict(enumerate(self.shapes))
        self.drawn_texts = {text: text.get_text() for text, _ in self._limits()}
        self.texts = dict(self.drawn_texts)
        self.labels = {ax: (self._label(ax, "x"), self._label(ax, "y")) for ax in self.places}

    def fit(self, height: float | None) -> bool:
        """Choose the columns, wrap the texts and set the height; return whether the panels have any room."""
        smallest: dict[int, float] = {}
        count = len(self.places)
        least = NARROWEST if count <= MANY else CROWDED
        free = self.titled and count > MANY
        fitting = [k for k in self.choices if free or (count if self.titled else self.columns) % k == 0]
        for columns in fitting or [self.columns]:
            self._arrange(columns, height)
            widest = max((self._size(ax)[0] for ax in self.now), default=least)
            lowest = min((self._size(ax)[1] for ax in self.now), default=least)
            smallest[columns] = self.room * (widest if height is None else min(widest, 1.5 * lowest))
            if smallest[columns] >= least:
                break
        best = max(smallest, key=lambda columns: min(smallest[columns], least))
        if best != columns:
            self._arrange(best, height)
        for _ in range(2 if height is None else 0):
            self._set_height()
            self._lay_out()
            self._wrap()
        self._thin()
        self._lay_out()
        self.canvas.set_layout_engine("none")
        for ax in self.equal:
            ax.set_aspect("equal")
            ax.apply_aspect()
        self.canvas.draw_without_rendering()
        self._thin()
        return self.room

    def _arrange(self, columns: int, height: float | None) -> None:
        """Place the panels in so many columns: titled ones in their order, others by blocks of whole columns."""
        from matplotlib.gridspec import GridSpec

        self.now = self.places
        self.high = dict(enumerate(self.shapes))
        for ax, spec in self.specs.items():
            ax.set_subplotspec(spec)
        if columns != self.columns:
            ordered = sorted(self.places, key=lambda ax: self.places[ax])
            blocks = {ax: (c // columns * self.rows + r, c % columns) for ax, (r, c) in self.places.items()}
            self.now = {ax: divmod(i, columns) for i, ax in enumerate(ordered)} if self.titled else blocks
            flat = [min(shape, STACKED) if shape < 1.3 else shape for shape in self.shapes]
            self.high = {row: flat[row % self.rows] for row in range(1 + max(row for row, _ in self.now.values()))}
            grid = GridSpec(len(self.high), columns, figure=self.canvas, height_ratios=list(self.high.values()))
            for ax, cell in self.now.items():
                ax.set_subplotspec(grid[cell])
            self._label_edges()
        if height is None:
            width = 0.8 * self.canvas.get_figwidth() / columns
            self.canvas.set_figheight(OVERHEAD + sum(0.4 + shape * width for shape in self.high.values()))
        self.room = False
        for _ in range(2):
            self._wrap()

    def _set_height(self) -> None:
        """Give the panels the heights that follow from their widths."""
        sizes = {ax: self._size(ax) for ax in self.now}
        wide = max((width for width, _ in sizes.values()), default=0.0)
        wanted = dict.fromkeys(self.high, LOWEST)
        now = dict.fromkeys(self.high, 0.0)
        for ax, (row, _) in self.now.items():
            width, now[row] = sizes[ax]
            ratio = ax.get_data_ratio() if ax in self.equal else 0.0
            high = _listed(ax) or ratio * width or self.high[row] * wide
            wanted[row] = max(wanted[row], high)
        for grid in {ax.get_subplotspec().get_gridspec() for ax in self.now}:
            grid.set_height_ratios(list(wanted.values()))
        self.canvas.set_figheight(max(self.canvas.get_figheight() + sum(wanted.values()) - sum(now.values()), 1.0))

    def _size(self, ax: Any) -> tuple[float, float]:
        """Return width and height of the cell of a panel, in inches; guesses before there is room for it."""
        width, height = self.canvas.get_size_inches()
        if self.room:
            cell = ax.get_position(original=True)
            return cell.width * width, cell.height * height
        columns = 1 + max((column for _, column in self.now.values()), default=0)
        return 0.6 * width / columns, 0.6 * height / (len(self.high) if ax in self.now else 1)

    def _lay_out(self) -> None:
        """Compute the layout, and see whether there is room for all panels."""
        engine = self.canvas.get_layout_engine()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if engine is not None:
                engine.execute(self.canvas)
        self.room = not any("collapsed to zero" in str(warning.message) for warning in caught)

    def _label(self, panel: Any, axis: str) -> str:
        """Return the label of a panel, or else that of the next one below (x) or to the left (y)."""
        row, column = self.places[panel]
        near = {
            abs(r - row + c - column): ax
            for ax, (r, c) in self.places.items()
            if (c == column and r >= row if axis == "x" else r == row and c <= column)
        }
        labels = (getattr(near[distance], f"get_{axis}label")() for distance in sorted(near))
        return str(next((label for label in labels if label), ""))

    def _label_edges(self) -> None:
        """Show what a panel has in common with the next one below, or on its left, only there."""
        at = {cell: ax for ax, cell in self.now.items()}
        for ax, (row, column) in self.now.items():
            beside = ("x", "bottom", (row + 1, column)), ("y", "left", (row, column - 1))
            for k, (axis, side, cell) in enumerate(beside):
                next_to, label = at.get(cell), getattr(ax, f"{axis}axis").label
                shared = next_to is not None and getattr(ax, f"get_shared_{axis}_axes")().joined(ax, next_to)
                alike = next_to is not None and self.labels[next_to][k] == self.labels[ax][k]
                self.texts[label] = "" if alike and (shared or not self.drawn_texts[label]) else self.labels[ax][k]
                if shared or next_to is None or axis == "x":
                    ax.tick_params(axis=axis, **{f"label{side}": not shared})

    def _limits(self) -> Iterator[tuple[Any, float]]:
        """Yield each text that may be wrapped, with the inches that it may be long."""
        for text in self.canvas.texts:
            yield text, self.canvas.get_figwidth() - 0.1
        for ax in self.canvas.axes:
            width, height = self._size(ax)
            for text in (ax.title, *ax.texts, ax.xaxis.label):
                yield text, width
            yield ax.yaxis.label, max(height, SHORTEST)

    def _wrap(self) -> None:
        """Wrap the texts into the places that they have now; the layout does not look at the length of titles."""
        for text, inches in self._limits():
            words = self.texts[text]
            text.set_text(words)
            longest = max((len(line) for line in words.splitlines()), default=0)
            while longest > FEWEST and self._length(text) > inches:
                longest = min(longest - 1, int(longest * inches / self._length(text)))
                text.set_text(_wrapped(words, max(longest, FEWEST)))
        self._lay_out()

    def _length(self, text: Any) -> float:
        """Return the inches of a text along its lines."""
        box = text.get_window_extent()
        return float((box.height if text.get_rotation() == 90 else box.width) / self.canvas.dpi)

    def _thin(self) -> None:
        """Hide the tick labels that touch another one, or the label of an axis."""
        names = [axis.label for ax in self.canvas.axes for axis in (ax.xaxis, ax.yaxis)]
        kept = [name.get_window_extent() for name in names if name.get_text()]
        for ax, name in itertools.product(self.canvas.axes, "yx"):
            axis = getattr(ax, f"{name}axis")
            low, high = sorted(axis.get_view_interval())
            ticks = (*axis.get_major_ticks(), *axis.get_minor_ticks())
            labels = [label for tick in ticks if low <= tick.get_loc() <= high for label in (tick.label1, tick.label2)]
            for label in (label for label in labels if label.get_visible() and label.get_text()):
                box = _extent(label)
                around = box.padded(2, 0)
                label.set_visible(not any(around.overlaps(other) for other in kept))
                kept += [box] if label.get_visible() else []


def _extent(label: Any) -> Any:
    """Return the box in which no other label may be: of an oblique one, as wide as its line cuts the axis."""
    from matplotlib.transforms import Bbox

    box = label.get_window_extent()
    angle = math.radians(label.get_rotation())
    if math.isclose(math.sin(2 * angle), 0, abs_tol=1e-9):
        return box
    width = label.get_fontsize() / 72 * label.get_figure().dpi / abs(math.sin(angle))
    return Bbox.from_bounds(box.x0, box.y0, min(width, box.width), box.height)


def _listed(ax: Any) -> float:
    """Return the inches that the names along a panel need, 0 without names."""
    from matplotlib.ticker import FixedLocator

    ticks = sorted(ax.get_yticks())
    if not isinstance(ax.yaxis.get_major_locator(), FixedLocator) or len(ticks) < 2:
        return 0.0
    low, high = sorted(ax.get_ylim())
    apart = min(after - before for before, after in itertools.pairwise(ticks))
    return float((high - low) / apart * LINE * ax.get_yticklabels()[0].get_fontsize() / 72)


def _wrapped(words: str, characters: int) -> str:
    """Return a text in lines of at most so many characters; a formula is not divided."""
    whole = re.sub(r"\$[^$]*\$", lambda formula: formula[0].replace(" ", "\0"), words)
    lines = [textwrap.wrap(line, characters, break_long_words="$" not in line) for line in whole.splitlines()]
    return "\n".join(itertools.chain.from_iterable(lines)).replace("\0", " ")
