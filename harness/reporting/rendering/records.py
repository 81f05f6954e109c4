"""Records as JSON and CSV: one flat object or one line per record.

JSON has no infinity: an infinite number is null, and an additional field NAME_text has "inf" or "-inf". In CSV an
infinite number is "inf" or "-inf", and a missing value is an empty cell.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from harness.system.text import plain


def as_json(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the records as a JSON list of objects."""
    return json.dumps(flat(records), indent=1, allow_nan=False, ensure_ascii=True) + "\n"


def as_csv(records: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """Return the records as CSV: a header line and one line per record.

    Columns are in the order of their first appearance, and lists are joined by spaces. `columns` is the header if there
    are no records.
    """
    columns = list(dict.fromkeys(key for record in records for key in record)) or columns
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if columns:
        writer.writerow(map(cell, columns))
    writer.writerows([cell(record.get(column)) for column in columns] for record in records)
    return stream.getvalue()


def flat(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the records as objects for JSON, in which every number is finite or null."""
    return [_finite(record) for record in records]


def _finite(record: Mapping[str, Any]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, float) and math.isinf(value):
            entries |= {key: None, f"{key}_text": str(value)}
        else:
            entries[key] = plain_value(value)
    return entries


def plain_value(value: Any) -> Any:
    """Return a value for JSON: NaN and infinity as None, times in ISO 8601, decimals as floats, other types as text."""
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): plain_value(member) for name, member in value.items()}
    return [plain_value(member) for member in value] if isinstance(value, list | tuple) else str(value)


def cell(value: Any) -> str:
    """Return a value as text. A text that starts with =, +, - or @ gets a quote in front of it.

    A spreadsheet would read it as a formula.
    """
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        value = " ".join(str(item) for item in value)
    if not isinstance(value, str):
        return repr(value) if isinstance(value, float) else str(value)
    text = plain(value)
    return f"'{text}" if text[:1] in {"=", "+", "-", "@"} else text
