"""From JSON to a row: every value checked against the type of its column."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from harness.results.store import schema
from harness.results.store.schema import Column
from harness.system.text import is_text

Row = dict[str, Any]
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""How JSON writes half of a character beyond the basic plane: alone it is no text."""


class Malformed(Exception):  # noqa: N818 - becomes a note, not an error
    """A record that is not what its format says; the message says where."""


def load(text: str, where: str) -> dict[str, Any]:
    """A JSON object; NaN and Infinity, which JSON does not have, are refused."""
    try:
        value = parse(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{where} does not read: {error}") from None
    if not isinstance(value, dict):
        raise Malformed(f"{where} is not a JSON object")
    if _HALF.search(text) and not is_text(json.dumps(value, ensure_ascii=False)):
        raise Malformed(f"{where} holds half a character, which is no text")
    return value


def parse(text: str) -> Any:
    """JSON, strictly."""
    return _DECODER.decode(text)


def dump(value: Any) -> str:
    """JSON text for a column: sorted, so that equal values are equal text."""
    return _ENCODER.encode(value)


def row(table: str, values: Mapping[str, Any], where: str) -> Row:
    """`values` as a row of a table, converted; raises `Malformed` naming the first that does not fit."""
    get = values.get
    return {
        name: value if fits(value := get(name)) else _convert(column, value, where)
        for name, column, fits in _plan(table)
    }


@functools.cache
def _plan(table: str) -> list[tuple[str, Column, Callable[[Any], bool]]]:
    """The columns of a table, each with what knows the values that go in as they are."""
    return [(name, column, _FITS[column.type]) for name, column in schema.columns(table).items()]


def pick(document: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    """A required member of a given type."""
    value = document.get(key)
    if not isinstance(value, kind):
        raise Malformed(f"{where}: {key} is {value!r:.40}, not a {kind.__name__}")
    return value


def _convert(column: Column, value: Any, where: str) -> Any:
    if value is None:
        if column.nullable:
            return None
        raise Malformed(f"{where}: {column.name} is missing")
    if column.type == "timestamp" and isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
        except (ValueError, OverflowError):
            raise Malformed(f"{where}: {column.name} = {value!r:.40} is not a time") from None
    if column.type == "double" and type(value) is int and abs(value) < 2**1023:
        return float(value)
    raise Malformed(f"{where}: {column.name} = {value!r:.40} is not a {column.type}")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_FITS: dict[str, Callable[[Any], bool]] = {
    "varchar": lambda value: type(value) is str and (value.isascii() or is_text(value)),
    "bigint": lambda value: type(value) is int and -(2**63) <= value < 2**63,
    "double": lambda value: type(value) is float and math.isfinite(value),
    "boolean": lambda value: type(value) is bool,
    "timestamp": lambda _: False,
}
"""Column type -> whether a value is one for DuckDB and for JSON alike: finite numbers, whole characters."""
_DECODER = json.JSONDecoder(parse_constant=_refuse)
