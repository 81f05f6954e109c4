"""Docstrings, tables and numbers in the Markdown of the pages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from harness.reporting.rendering.markdown import escape

EMPHASIS = re.compile(r"(?<!\w)\\\*(\w[\w -]*\w|\w)\\\*(?!\w)")
"""An escaped *word*: docstrings use asterisks for emphasis as well as for products."""

CODE = re.compile(r"(`[^`\n]+`)")


def prose(text: str) -> str:
    """A docstring: indented blocks are equations and stay, the rest is escaped but for *words* and `code`."""
    return "\n\n".join(
        block if block.startswith("    ") else "\n".join(map(_line, block.splitlines())) for block in text.split("\n\n")
    )


def _line(line: str) -> str:
    if line.startswith("    "):
        return line
    parts = CODE.split(line)
    return "".join(part if CODE.fullmatch(part) else _escaped(part) for part in parts)


def _escaped(part: str) -> str:
    """Escaped; the spaces at its ends, which `escape` drops, are kept."""
    lead, trail = part[: len(part) - len(part.lstrip())], part[len(part.rstrip()) :] if part.strip() else ""
    return lead + EMPHASIS.sub(r"*\1*", escape(part)) + trail


def table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """A table of these columns (key -> header); ready Markdown is passed as `Ready`."""
    lines = [list(columns.values()), ["---"] * len(columns)]
    lines += [[cell(row.get(key)) for key in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


class Ready(str):
    """Text that is Markdown already."""

    __slots__ = ()


def cell(value: Any) -> str:
    """A value in a cell."""
    if isinstance(value, Ready):
        return value
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape(number(value))


def number(value: Any) -> str:
    """Six digits at most of a number, anything else as it is."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
