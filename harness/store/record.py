"""From JSON to a row: every value checked against the type of its column."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from harness.store import schema
from harness.store.schema import Column

Row = dict[str, Any]
_EXACT = {"varchar": str, "double": float, "boolean": bool}
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


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
    return value


def parse(text: str) -> Any:
    """JSON, strictly."""
    return _DECODER.decode(text)


def dump(value: Any) -> str:
    """JSON text for a column: sorted, so that equal values are equal text."""
    return _ENCODER.encode(value)


def row(table: str, values: Mapping[str, Any], where: str) -> Row:
    """`values` as a row of a table, converted; raises `Malformed` naming the first that does not fit."""
    return {name: _convert(column, values.get(name), where) for name, column in schema.columns(table).items()}


def pick(document: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    """A required member of a given type."""
    value = document.get(key)
    if not isinstance(value, kind):
        raise Malformed(f"{where}: {key} is {value!r:.40}, not a {kind.__name__}")
    return value


def _convert(column: Column, value: Any, where: str) -> Any:
    if type(value) is _EXACT.get(column.type):
        return value
    if value is None:
        if column.nullable:
            return None
        raise Malformed(f"{where}: {column.name} is missing")
    if column.type == "timestamp" and isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise Malformed(f"{where}: {column.name} = {value!r:.40} is not a time") from None
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    if column.type == "double" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if column.type == "bigint" and type(value) is int and -(2**63) <= value < 2**63:
        return value
    raise Malformed(f"{where}: {column.name} = {value!r:.40} is not a {column.type}")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
