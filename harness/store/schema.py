"""The schema of the store: its numbered sections in schema.sql, and what each object and column is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import DataError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TEXT = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
_SECTION = re.compile(r"^-- migration (\d+):.*$", re.MULTILINE)
_OBJECT = re.compile(r"((?:^--.*\n)+)create (?:or replace )?(table|view) (\w+)", re.MULTILINE)
_ADDED = re.compile(r"^alter table (\w+) add column (\w+ \w+ .*)$", re.MULTILINE)
_COLUMN = re.compile(r"^ +(\w+) (varchar|bigint|double|boolean|timestamp)\b(.*?),? -- (.*)$")
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


def version(connection: DuckDBPyConnection) -> int:
    """The schema version of an open database; 0 where it has none."""
    import duckdb

    try:
        rows = connection.execute("select value from meta where key = 'schema_version'").fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):
        return 0
    return int(rows[0][0]) if rows else 0


def check(connection: DuckDBPyConnection, path: Path) -> int:
    """The schema version of a database; refuses one that a newer bench wrote, or something else."""
    found = version(connection)
    if found > VERSION:
        raise DataError(
            f"{path} is from a newer bench (schema {found}, this one knows {VERSION}); upgrade sgmcmc-bench, "
            "or move the file away: it is rebuilt from the runs beside it"
        )
    if not found and connection.execute("select 1 from duckdb_tables()").fetchall():
        raise DataError(f"{path} is a database, but not one of bench; move it away")
    return found


def migrate(connection: DuckDBPyConnection, found: int = 0) -> None:
    """Bring an open, writable database from version `found` to this one, in one transaction."""
    missing = [body for number, body in sections().items() if number > found]
    connection.execute("begin")
    for body in missing:
        connection.execute(body)
    connection.execute("insert or replace into meta (key, value) values ('schema_version', ?)", [str(VERSION)])
    connection.execute("commit")


def _column(line: str) -> Column | None:
    stored = _COLUMN.match(line)
    if stored:
        name, kind, constraint, comment = stored.groups()
        nullable = "not null" not in constraint and "primary key" not in constraint
        return Column(name, kind, nullable, comment)
    alias = _ALIAS.match(line)
    return Column(alias.group(1), "", True, alias.group(2)) if alias else None
