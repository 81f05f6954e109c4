"""Records declared once: dataclasses whose fields state their meaning.

Columns, rows, checks and DDL follow from them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

from harness.system.text import is_text

Row = dict[str, Any]
LONGEST = 1000
"""Most characters of a text in a record that is checked, unless it declares another number."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_TYPES = {
    "str": "varchar", "int": "bigint", "float": "double", "bool": "boolean", "datetime": "timestamp",
    "list[float]": "double[]",
}  # fmt: skip
"""Maps the annotation of a field to the type of its column. A field of any other type is JSON in a varchar."""


class Malformed(Exception):  # noqa: N818 - becomes a note, not an error
    """A record that does not match its format; the message says where."""


@dataclass(frozen=True)
class SchemaColumn:
    """A column of a table.

    at       path of the value in a document, key by key; empty if the value is not taken from the document
    least    the least value allowed
    most     the largest value allowed; of a text, its most characters
    among    the values allowed; empty if all are
    json     whether the value is any JSON, stored as text
    absent   the value used if a document, or a published row, has none
    """

    name: str
    type: str
    comment: str
    nullable: bool = False
    at: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    among: tuple[str, ...] = ()
    json: bool = False
    absent: str | None = None

    def ddl(self, key: bool = False) -> str:  # noqa: FBT001, FBT002 - whether it is the table's key
        """Return the definition of the column for a `create table`."""
        default = "" if self.absent is None else f" default '{self.absent}'"
        number = f" check (not isnan({self.name}))" if self.type == "double" else ""
        null = " primary key" if key else "" if self.nullable else " not null"
        return f"{self.name} {self.type}{null}{default}{number}"


def entry(meaning: str, default: Any = MISSING, **about: Any) -> Any:
    """Return a dataclass field of a record. A default that is a type is called to make the value.

    `about` holds attributes of the field's column (`at` is written with dots) and further metadata of the record.
    """
    if isinstance(default, type):
        return field(default_factory=default, metadata={"meaning": meaning, **about})
    return field(default=default, metadata={"meaning": meaning, **about})


def document(record: Any) -> Row:
    """Return a record as a JSON document, with each field at the path `at`, from which `row` reads it.

    A field with an empty `at` is left out.
    """
    tree: Row = {}
    for f in fields(record):
        value, part = getattr(record, f.name), tree
        *above, name = str(f.metadata.get("at", f.name)).split(".")
        for step in above if name else ():
            part = part.setdefault(step, {})
        if name:
            part[name] = [document(v) if is_dataclass(v) else v for v in value] if isinstance(value, tuple) else value
    return tree


def columns(record: type) -> dict[str, SchemaColumn]:
    """Return the columns of a record's fields, by name. Fields without a meaning, or with `column=None`, have none."""
    schema = {}
    for f in fields(record):
        about = {name: value for name, value in f.metadata.items() if name in SchemaColumn.__annotations__}
        name = f.metadata.get("column", f.name)
        if "meaning" not in f.metadata or name is None:
            continue
        kind, _, nothing = str(f.type).partition(" | ")
        about["at"] = tuple(str(about.get("at", f.name)).split(".")) if about.get("at", True) else ()
        plain = {"type": _TYPES.get(kind, "varchar"), "json": kind not in _TYPES, "nullable": bool(nothing)}
        schema[name] = SchemaColumn(name=name, comment=f.metadata["meaning"], **{**plain, **about})
    return schema


def row(table: Mapping[str, SchemaColumn], document: Mapping[str, Any], where: str, /, **given: Any) -> Row:
    """Return a document as a row of a table, checked and converted.

    Raises `Malformed`, which names the first value that does not fit. `given` holds, by column, the values that are not
    taken from the document.
    """
    values = {}
    for name, column in table.items():
        if name in given:
            value = given[name]
        elif len(column.at) == 1:
            value = document.get(column.at[0])
        else:
            value = _inside(document, column.at, where)
        if column.json:
            value = dump(value)
        elif not _FITS[column.type](value):
            value = _convert(column, value, where)
        if value is not None:
            _check_size(value, column.least, column.most, f"{where}: {name}")
        if column.among and value not in column.among:
            raise Malformed(f"{where}: {name} {value!r:.40} is not one of {', '.join(column.among)}")
        values[name] = value
    return values


def check(record: Any) -> None:
    """Raise `Malformed` if a field of a record has another type than it declares, or is not within `least` and `most`.

    A field that is JSON or another record is not checked.
    """
    for f in fields(record):
        kind, _, nothing = str(f.type).partition(" | ")
        value = getattr(record, f.name)
        if kind not in _TYPES or (nothing and value is None):
            continue
        if not _FITS[_TYPES[kind]](value):
            raise Malformed(f"{f.name} = {value!r:.40} is not a {kind}")
        usual = LONGEST if kind == "str" else None
        _check_size(value, f.metadata.get("least"), f.metadata.get("most", usual), f.name)


def _check_size(value: Any, least: int | None, most: int | None, where: str) -> None:
    if least is not None and value < least:
        raise Malformed(f"{where} = {value} is less than {least}")
    if most is not None and (len(value) if isinstance(value, str) else value) > most:
        raise Malformed(f"{where} = {value!r:.40} is more than {most:,}{' characters' * isinstance(value, str)}")


def pick(document: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    """Return a required member of a document; raises `Malformed` if it does not have the given type."""
    value = document.get(key)
    if not isinstance(value, kind):
        raise Malformed(f"{where}: {key} is {value!r:.40}, not a {kind.__name__}")
    return value


def dump(value: Any) -> str:
    """Return the JSON text for a column. Keys are sorted, so that equal values give equal texts."""
    return _ENCODER.encode(value)


def _inside(document: Mapping[str, Any], at: tuple[str, ...], where: str) -> Any:
    for i, step in enumerate(at[:-1]):
        document = pick(document, step, dict, ": ".join([where, *at[:i]]))
    return document.get(at[-1]) if at else None


def _convert(column: SchemaColumn, value: Any, where: str) -> Any:
    if value is None:
        if column.nullable or column.absent is not None:
            return column.absent
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


_FITS: dict[str, Callable[[Any], bool]] = {
    "varchar": lambda value: type(value) is str and (value.isascii() or is_text(value)),
    "bigint": lambda value: type(value) is int and -(2**63) <= value < 2**63,
    "double": lambda value: type(value) is float and math.isfinite(value),
    "boolean": lambda value: type(value) is bool,
    "timestamp": lambda _: False,
}
"""Maps the type of a SchemaColumn to a test of whether both DuckDB and JSON can store a value: numbers must be finite,
and text must be encodable. A time always has to be converted.
"""
