"""The schema of the store: its numbered sections in schema.sql, and what each object and column is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TEXT = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
_SECTION = re.compile(r"^-- migration (\d+):.*$", re.MULTILINE)
_OBJECT = re.compile(r"((?:^--.*\n)+)create (?:or replace )?(table|view) (\w+)", re.MULTILINE)
_ADDED = re.compile(r"^alter table (\w+) add column (\w+ \w+ .*)$", re.MULTILINE)
_COLUMN = re.compile(r"^ +(\w+) (varchar|bigint|double(?:\[\])?|boolean|timestamp)(?= |,|$)(.*?),? -- (.*)$")
_ALIAS = re.compile(r"^ +\w+\.\w+ as (\w+),? -- (.*)$")


@dataclass(frozen=True)
class Column:
    """A column of a table: its type, whether it may be NULL, and what it means."""

    name: str
    type: str
    nullable: bool
    comment: str


@dataclass(frozen=True)
class Object:
    """A table or a view: what a row is, and its columns; of a view those alone that it names itself."""

    name: str
    comment: str
    columns: dict[str, Column]


def sections(text: str = TEXT) -> dict[int, str]:
    """The migrations of schema.sql by number, in order."""
    parts = _SECTION.split(text)[1:]
    return {int(number): body for number, body in zip(parts[::2], parts[1::2], strict=True)}


VERSION = max(sections())


@cache
def objects() -> dict[str, Object]:
    """All tables and views by name, in the order of schema.sql, read from its text."""
    found = {}
    starts = list(_OBJECT.finditer(TEXT))
    for match, following in zip(starts, [*starts[1:], None], strict=True):
        lines = TEXT[match.end() : following.start() if following else len(TEXT)].splitlines()
        comment = " ".join(line.removeprefix("-- ") for line in match.group(1).splitlines())
        columns = {column.name: column for column in map(_column, lines) if column}
        found[match.group(3)] = Object(match.group(3), comment, columns)
    for table, line in _ADDED.findall(TEXT):
        column = _column(f" {line}")
        if column is not None:
            found[table].columns[column.name] = column
    return found


def columns(table: str) -> dict[str, Column]:
    """The columns of a table by name."""
    return objects()[table].columns


def migrate(connection: DuckDBPyConnection, found: int = 0, to: int | None = None) -> None:
    """Bring an open, writable database from version `found` to `to`, the latest if None, in one transaction."""
    to = VERSION if to is None else to
    missing = [body for number, body in sections().items() if found < number <= to]
    connection.execute("begin")
    for body in missing:
        connection.execute(body)
    if missing:
        connection.execute("insert or replace into meta (key, value) values ('schema_version', ?)", [str(to)])
    connection.execute("commit")


def _column(line: str) -> Column | None:
    stored = _COLUMN.match(line)
    if stored:
        name, kind, constraint, comment = stored.groups()
        nullable = "not null" not in constraint and "primary key" not in constraint
        return Column(name, kind, nullable, comment)
    alias = _ALIAS.match(line)
    return Column(alias.group(1), "", True, alias.group(2)) if alias else None
