"""Tables and numbers in the Markdown of the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.reporting.rendering.markdown import escape


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
