"""Tables as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.reporting.tables import Table
from harness.system.text import plain

_EMPHASIS = re.compile(r"(?<!\w)\\\*(\w[\w -]*\w|\w)\\\*(?!\w)")
"""An escaped *word*. Docstrings use asterisks for emphasis and for products."""
_CODE = re.compile(r"(`[^`\n]+`)")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#&~$!])")


def render(tables: Sequence[Table | str]) -> str:
    """Return a heading, a table and its notes for each table. A text is a paragraph."""
    return "\n".join(f"{prose(table)}\n" if isinstance(table, str) else _table(table) for table in tables)


def prose(text: str) -> str:
    """Return a docstring as Markdown.

    Indented blocks are equations and stay. The rest is escaped, except *words* and `code`.
    """
    return "\n\n".join(
        block if block.startswith("    ") else "\n".join(map(_prose_line, block.splitlines()))
        for block in text.split("\n\n")
    )


def _prose_line(line: str) -> str:
    if line.startswith("    "):
        return line
    parts = _CODE.split(line)
    return "".join(part if _CODE.fullmatch(part) else _escaped(part) for part in parts)


def _escaped(part: str) -> str:
    """Escape a text but keep its leading and trailing spaces, which `escape` drops."""
    lead, trail = part[: len(part) - len(part.lstrip())], part[len(part.rstrip()) :] if part.strip() else ""
    return lead + _EMPHASIS.sub(r"*\1*", escape(part)) + trail


def escape(text: str) -> str:
    """Escape a text so that Markdown shows it unchanged, also inside a table cell."""
    return _SPECIAL.sub(r"\\\1", plain(text))


def _table(table: Table) -> str:
    lines = [f"### {escape(table.title)}", ""] if table.title else []
    lines.append(_line([escape(column.header) for column in table.columns]))
    lines.append(_line(["---:" if column.align == "right" else "---" for column in table.columns]))
    lines += [_line([escape(cell) for cell in cells]) for cells in table.cells()]
    if table.notes:
        lines += ["", *(f"- {escape(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
