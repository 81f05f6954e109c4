"""The papers' TOML files -> rows of paper, reported_value, claim and choice. `plugins/papers` says what they hold."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.results.records import columns_of, tables
from harness.system.columns import Malformed, Row, row
from harness.system.files import read_bytes
from harness.system.toml import read_toml

LABELS = ("table", "row", "column")


def checksum(paths: Iterable[Path]) -> str:
    """SHA-256 of the files, together; one that cannot be read counts as empty."""
    total = hashlib.sha256()
    for path in sorted(paths):
        content = b""
        with suppress(OSError):
            content = read_bytes(os.path.realpath(path))
        total.update(hashlib.sha256(content).digest())
    return total.hexdigest()


def read(paths: Iterable[Path]) -> tuple[dict[str, list[Row]], list[str]]:
    """The rows of all papers by table, and a note for each file that is not whole.

    A file whose [paper] has an id alone is a second one of that paper, with settings and choices.
    """
    paths = sorted(paths)
    digest = checksum(paths)
    rows: dict[str, list[Row]] = {table: [] for table in tables("papers")}
    notes = []
    for path in paths:
        try:
            found = _paper(read_toml(path), digest)
            if found["paper"] and found["paper"][0]["paper"] in {known["paper"] for known in rows["paper"]}:
                name = found["paper"][0]["paper"]
                raise Malformed(f"another file has the paper {name!r} too")  # noqa: TRY301
        except (Malformed, OSError, ValueError, TypeError, RecursionError) as error:
            notes.append(f"{path} is left out: {error}")
            continue
        for table in rows:
            rows[table] += found[table]
    return rows, notes


def _paper(document: Mapping[str, Any], digest: str) -> dict[str, list[Row]]:
    paper = document.get("paper")
    if not isinstance(paper, dict):
        raise Malformed("it has no [paper]")
    second = paper.keys() == {"id"} and not document.keys() & {"reported", "claim"}
    name = paper.get("id")
    heads = [] if second else [row(columns_of("paper"), paper, "[paper]", sha256=digest)]
    return {
        "paper": heads,
        "reported_value": [
            row(columns_of("reported_value"), _labelled(entry), f"[[reported]]: cell {i}", paper=name, i=i)
            for i, entry in enumerate(_entries(document, "reported", "cells"))
        ],
        "claim": [
            row(columns_of("claim"), _labelled(entry), f"[[claim]]: claim {i}", paper=name, i=i, document=entry)
            for i, entry in enumerate(_entries(document, "claim", "claims"))
        ],
        "choice": [row(columns_of("choice"), choice, where, paper=name) for where, choice in _choices(document)],
    }


def _choices(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The settings of each method, and what a protocol rests on besides, each with where it stands."""
    for i, table in enumerate(_tables(document, "settings", "settings is not a list of tables, [[settings]]"), 1):
        where, place = f"[[settings]] {i}", {key: table.get(key) for key in ("method", "task", "protocol")}
        values = table.get("values", {})
        if not isinstance(values, dict) or not all(isinstance(entry, dict) for entry in values.values()):
            raise Malformed(f"{where}: values is not a table of tables")
        for name, entry in values.items():
            yield where, {**entry, **place, "name": name, "value": _text(entry.get("value"))}
    for i, table in enumerate(_tables(document, "choices", "choices is not a list of tables, [[choices]]"), 1):
        where, tasks = f"[[choices]] {i}", table.get("tasks")
        if not isinstance(tasks, list):
            raise Malformed(f"{where}: tasks is not a list of names")
        for entry in _tables(table, "values", f"{where}: values is not a list of tables"):
            for task in tasks:
                yield where, {**entry, "task": task, "protocol": table.get("protocol"), "method": table.get("method")}


def _entries(document: Mapping[str, Any], key: str, members: str) -> Iterator[Mapping[str, Any]]:
    """The records of [[key]]: itself, or each of its list `members` with what the table says of all of them."""
    for table in _tables(document, key, f"{key} is not a list of tables, [[{key}]]"):
        if members not in table:
            yield table
            continue
        shared = {name: value for name, value in table.items() if name != members}
        for entry in _tables(table, members, f"[[{key}]]: {members} is not a list of tables"):
            yield {**shared, **entry}


def _tables(document: Mapping[str, Any], key: str, problem: str) -> list[Mapping[str, Any]]:
    tables = document.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise Malformed(problem)
    return tables


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _labelled(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Labels are text, though a file may write a table's number as one."""
    return {name: str(value) if name in LABELS else value for name, value in entry.items()}
