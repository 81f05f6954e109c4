"""Turn a nested record, as `bench show` prints it, into tables and paragraphs for the renderers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.reporting import table
from harness.reports import Column, Table, number

MAX_ROWS = 30
"""Most rows of a table with a title. --json has all rows."""
SHORT = 8
"""Characters of a number that is shown as it is; a longer one has three digits."""
MAX_VALUES = 6
"""Most values of a list that are shown. --json has all."""
EXACT = "settings"
"""The entry whose numbers are shown as they were given, because they are not measured."""
EXPLANATIONS = "how_to_read"
"""The entry of a record that explains its other entries, by name."""


def sections(record: Mapping[str, Any]) -> list[Table | str]:
    """Return the sections of a record: its description, a table of its single values, then each text and table."""
    meaning = record.get(EXPLANATIONS) or {}
    shown = {name: value for name, value in record.items() if name not in {"description", EXPLANATIONS}}
    parts: list[Table | str] = [record["description"]] if record.get("description") else []
    parts.append(_values({name: value for name, value in shown.items() if not _is_block(value)}, meaning))
    for name, value in shown.items():
        if value and _is_block(value):
            parts += _block(name, value, meaning.get(name, ""))
    return parts


def _title(name: str) -> str:
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def _values(values: Mapping[str, Any], meaning: Mapping[str, str], title: str = "") -> Table:
    rows = [
        {"name": name.replace("_", " "), "value": text, "meaning": meaning.get(name, "")}
        for name, value in values.items()
        if value is not None and (text := _text(value))
    ]
    explained = [Column("meaning", "")] if any(row["meaning"] for row in rows) else []
    columns = [Column("name", ""), Column("value", ""), *explained]
    return replace(_first(rows, title) if title else table(rows), columns=columns, keys=len(columns))


def _text(value: Any) -> str:
    """Return a value for people: long numbers with three digits, and the first values of a long list."""
    if isinstance(value, float):
        return str(value) if len(str(value)) <= SHORT else number(value)
    if not isinstance(value, list) or not value:
        return "" if value == [] else str(value)
    shown = value if isinstance(value[0], str) else value[:MAX_VALUES]
    texts = [f"[{_text(part)}]" if isinstance(part, list) else _text(part) for part in shown]
    return ", ".join([*texts, *([f"and {len(value) - len(shown):,} more"] if len(value) > len(shown) else [])])


def _first(rows: Sequence[Mapping[str, Any]], title: str) -> Table:
    more = [f"... and {len(rows) - MAX_ROWS} more; --json has all"] if len(rows) > MAX_ROWS else []
    return replace(table(rows[:MAX_ROWS], title=title), notes=more)


def _is_block(value: Any) -> bool:
    rows = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    return rows or isinstance(value, dict) or (isinstance(value, str) and "\n" in value)


def _block(name: str, value: Any, meaning: str) -> list[Table | str]:
    title, notes = _title(name), [meaning] if meaning else []
    if isinstance(value, str):
        return [f"{title}:\n\n{value}"]
    if isinstance(value, list):
        shown = _first(value, title)
        if name != EXACT:
            rounded = [{key: _text(x) if isinstance(x, float) else x for key, x in row.items()} for row in shown.rows]
            shown = replace(shown, rows=rounded)
        return [replace(shown, notes=[*notes, *shown.notes])]
    columns = {entry: column for entry, column in value.items() if _is_column(column)}
    if len({len(column) for column in columns.values()}) > 1:
        columns = {}
    single = {entry: x for entry, x in value.items() if entry not in columns}
    rows = [
        {"i": i, **{entry: f"{x:.6g}" for entry, x in zip(columns, numbers, strict=True)}}
        for i, numbers in enumerate(zip(*columns.values(), strict=True))
    ]
    return [replace(_values(single, {}, title), notes=notes), *([_first(rows, "")] if rows else [])]


def _is_column(value: Any) -> bool:
    return isinstance(value, list) and all(type(x) in {int, float} for x in value)
