"""Tables as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.reporting.report import Table
from harness.system.text import plain

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#&~$!])")


def render(tables: Sequence[Table]) -> str:
    """A heading, a table and its notes, for each table."""
    return "\n".join(_table(table) for table in tables)


def escape(text: str) -> str:
    """Text that Markdown shows as it is, inside a table cell too."""
    return _SPECIAL.sub(r"\\\1", plain(text))


def _table(table: Table) -> str:
    lines = [f"### {escape(table.title)}", ""]
    lines.append(_line([escape(column.header) for column in table.columns]))
    lines.append(_line(["---:" if column.align == "right" else "---" for column in table.columns]))
    lines += [_line([escape(cell) for cell in cells]) for cells in table.cells()]
    if table.notes:
        lines += ["", *(f"- {escape(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
