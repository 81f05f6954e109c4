"""Tables for a terminal, or for a pipe: the same columns, unwrapped and without styles."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from harness.rendering.text import plain
from harness.report import Table

UNLIMITED = 10_000
GAP = 3
"""Spaces between columns."""


def render(tables: Sequence[Table], width: int | None = None) -> str:
    """The tables one below the other. One wider than `width` is cut into several that repeat its key columns."""
    return "\n".join(_table(table, width) for table in tables)


def _table(table: Table, width: int | None) -> str:
    from rich.console import Console
    from rich.text import Text

    stream = io.StringIO()
    console = Console(
        file=stream, width=width or UNLIMITED, force_terminal=False, color_system=None, legacy_windows=False
    )
    console.print(Text(plain(table.title)))
    header = [plain(column.header) for column in table.columns]
    cells = [header, *([plain(cell) for cell in row] for row in table.cells())]
    for chosen in _parts(cells, table.keys, width or UNLIMITED):
        console.print(_grid(table, cells, chosen))
    for note in table.notes:
        console.print(Text(plain(note)))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def _parts(cells: Sequence[Sequence[str]], keys: int, width: int) -> list[list[int]]:
    """The columns of each part: the keys, and as many of the others as fit, one at least."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) + GAP for column in zip(*cells, strict=True)]
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
