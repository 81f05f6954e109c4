"""A nested record, as `bench show` and its page print it: tables and paragraphs for the renderers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.reporting.report import Column, Table, table

MAX_ROWS = 30
"""Rows of a table that a reader gets; --json has all."""


def sections(record: Mapping[str, Any]) -> list[Table | str]:
    """Single values first, a line each; then texts and tables, each under its name."""
    found: list[Table | str] = [_values({name: value for name, value in record.items() if not _is_block(value)})]
    for name, value in record.items():
        if value and _is_block(value):
            found += _block(name, value)
    return found


def _values(values: Mapping[str, Any], title: str = "") -> Table:
    texts = {name: ", ".join(map(str, x)) if isinstance(x, list) else x for name, x in values.items()}
    rows = [{"name": name, "value": str(text)} for name, text in texts.items() if text not in (None, "")]
    return replace(_first(rows, title), columns=[Column("name", ""), Column("value", "")])


def _first(rows: Sequence[Mapping[str, Any]], title: str) -> Table:
    more = [f"... and {len(rows) - MAX_ROWS} more; --json has all"] if len(rows) > MAX_ROWS else []
    return replace(table(rows[:MAX_ROWS], title=title), notes=more)


def _is_block(value: Any) -> bool:
    rows = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    return rows or isinstance(value, dict) or (isinstance(value, str) and "\n" in value)


def _block(name: str, value: Any) -> list[Table | str]:
    if isinstance(value, str):
        return [f"{name}:\n\n{value}"]
    if isinstance(value, list):
        return [_first(value, f"{name}:")]
    columns = {entry: column for entry, column in value.items() if _is_column(column)}
    if len({len(column) for column in columns.values()}) > 1:
        columns = {}
    single = {entry: x for entry, x in value.items() if entry not in columns}
    rows = [
        {"i": i, **{entry: f"{x:.6g}" for entry, x in zip(columns, numbers, strict=True)}}
        for i, numbers in enumerate(zip(*columns.values(), strict=True))
    ]
    return [_values(single, f"{name}:"), *([_first(rows, "")] if rows else [])]


def _is_column(value: Any) -> bool:
    return isinstance(value, list) and all(type(x) in {int, float} for x in value)
