"""Tables for a terminal or a pipe, without styles; for a pipe they are not wrapped."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from harness.reporting.report import Table
from harness.system.text import harmless, plain

UNLIMITED = 10_000
GAP = 3
"""Spaces between columns."""
WIDEST = 300
"""Characters of a cell: a longer one would make all rows too wide to read. The other formats have all."""
MANY = 1000
"""Rows from which a table is not fitted to the terminal: rich would take seconds."""
_KEPT = "\n\t"


def render(tables: Sequence[Table | str], width: int | None = None) -> str:
    """The tables, one after the other. A table wider than `width` is split into several that repeat its key columns."""
    return "\n".join(f"{harmless(t, _KEPT)}\n" if isinstance(t, str) else _table(t, width) for t in tables)


def _table(table: Table, width: int | None) -> str:
    limit = UNLIMITED if width is None or len(table.rows) > MANY else width
    header = [plain(column.header) for column in table.columns]
    cells = [header, *([_cut(plain(cell)) for cell in row] for row in table.cells())]
    widths = [max(map(_length, column)) for column in zip(*cells, strict=True)]
    parts = [_folded(plain(table.title), limit)] if table.title else []
    for chosen in _parts(widths, table.keys, limit):
        fits = sum(widths[i] + GAP for i in chosen) - GAP <= limit
        parts.append(_lines(table, cells, chosen, widths) if fits else _folded(_grid(table, cells, chosen), limit))
    parts += [_folded(plain(note), limit) for note in table.notes]
    return "".join(f"{line.rstrip()}\n" for part in parts for line in part.splitlines())


def _cut(text: str) -> str:
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."


def _length(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _lines(table: Table, cells: Sequence[Sequence[str]], chosen: Sequence[int], widths: Sequence[int]) -> str:
    """Columns that fit unwrapped. For thousands of rows, rich would take longer than the report."""
    lines = []
    for row in cells:
        padded = [(row[i], " " * (widths[i] - _length(row[i])), table.columns[i].align) for i in chosen]
        lines.append(
            (" " * GAP).join(space + text if align == "right" else text + space for text, space, align in padded)
        )
    rule = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * (sum(widths[i] + GAP for i in chosen) - GAP)
    return "\n".join([lines[0], rule, *lines[1:]] if any(cells[0]) else lines[1:])


def _folded(thing: Any, width: int) -> str:
    """A text, or a grid, in lines of at most this width."""
    from rich.console import Console
    from rich.text import Text

    if isinstance(thing, str) and _length(thing) <= width:
        return thing or "\n"
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=False, color_system=None, legacy_windows=False)
    console.print(Text(thing) if isinstance(thing, str) else thing)
    return stream.getvalue()


def _parts(lengths: Sequence[int], keys: int, width: int) -> list[list[int]]:
    """The columns of each part: the keys, and as many of the others as fit, at least one."""
    widths = [length + GAP for length in lengths]
    leading = list(range(keys))
    parts = [leading]
    for i in range(keys, len(widths)):
        last = parts[-1]
        if len(last) > keys and sum(widths[j] for j in last) + widths[i] - GAP > width:
            parts.append([*leading, i])
        else:
            parts[-1] = [*last, i]
    return parts


def _grid(table: Table, cells: Sequence[Sequence[str]], chosen: Sequence[int]) -> Any:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i in chosen:
        grid.add_column(Text(cells[0][i]), justify=table.columns[i].align, overflow="fold")
    for row in cells[1:]:
        grid.add_row(*(Text(row[i]) for i in chosen))
    return grid
