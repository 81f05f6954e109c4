"""Tables and figures: what reports and verbs show to people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Column:
    """A column: key of its cells in a row, header, alignment, a format (".3g") or function, and which value is best.

    `shown` is the key of the cell's text, if a row has both a value and a text that is not made of it alone.
    """

    key: str
    header: str
    align: Literal["left", "right"] = "left"
    format: str | Callable[[Any], str] = ""
    shown: str = ""
    best: Literal["", "min", "max"] = ""

    def text(self, row: Mapping[str, Any]) -> str:
        """Return the cell of a row as text: "" for a missing value, "inf" and "-inf" for infinities."""
        value = row.get(self.shown or self.key)
        if value is None:
            return ""
        if callable(self.format):
            return self.format(value)
        text = str(value) if isinstance(value, str) else format(value, self.format)
        return f"{float(text):,.0f}" if self.format.endswith("g") and "e+0" in text else text


@dataclass(frozen=True)
class Table:
    """A table for people. Its rows are mappings from column keys to values, and its notes are shown below it.

    The first `keys` columns name a row, so a terminal that is too narrow for all columns always shows these. If there
    are columns `more`, shown on demand, it shows all others. In a LaTeX document `label` is the table's, and the cells
    `bold`, by row and column key, are in bold.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()
    keys: int = 1
    more: Sequence[Column] = ()
    label: str = ""
    bold: Collection[tuple[int, str]] = ()

    def cells(self) -> list[list[str]]:
        """Return the cells as text, one list per row."""
        return [[column.text(row) for column in self.columns] for row in self.rows]


@dataclass(frozen=True)
class Figure:
    """A figure: `draw` fills a matplotlib Figure of `size` inches, which the renderer saves under the figure's name.

    `caption` explains what the picture does not show by itself. `title` replaces the title that `draw` sets. `task` and
    `method` are what the figure is about, if it is about only one; then it depends on the runs of this task only.
    `chart` has its lines as numbers, in JSON, for a page on which they can be read (docs/pages.md). `arrange` changes
    what was drawn, before its layout.
    """

    name: str
    draw: Callable[[Any], None]
    size: tuple[float, float] = (6.4, 4.8)
    caption: str = ""
    title: str | None = None
    task: str = ""
    method: str = ""
    chart: Mapping[str, Any] | None = None
    arrange: Callable[[Any], None] = lambda _: None


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = (), title: str = "") -> Table:
    """Make a table of rows with these keys as columns, by default all keys. Columns of numbers are aligned right."""

    def number(key: str) -> bool:
        values = [row[key] for row in rows if row.get(key) is not None]
        return bool(values) and all(type(value) in {int, float} for value in values)

    names = columns or list(dict.fromkeys(key for row in rows for key in row))
    return Table(title, [Column(key, key, "right" if number(key) else "left") for key in names], rows)
