"""The papers' TOML files -> rows of paper, reported_value and claim. `plugins/papers` says what they hold."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.ledger.files import read_bytes
from harness.store.record import Malformed, Row, dump, row

LABELS = {"table": "table_label", "row": "row_label", "column": "column_label"}


_TITLE = re.compile(rb"^title\s*=", re.MULTILINE)


def checksums(paths: Iterable[Path]) -> set[str]:
    """SHA-256 of each file that gives rows, told by its title; of one that cannot be read, nothing."""
    found = set()
    for path in paths:
        with suppress(OSError):
            content = read_bytes(path)
            if _TITLE.search(content):
                found.add(hashlib.sha256(content).hexdigest())
    return found


def read(paths: Iterable[Path]) -> tuple[dict[str, list[Row]], list[str]]:
    """The rows of all papers by table, and a note for each file that is not whole.

    A file whose [paper] has an id alone is a second one of that paper, with settings, and gives no rows.
    """
    rows: dict[str, list[Row]] = {"paper": [], "reported_value": [], "claim": []}
    notes = []
    for path in sorted(paths):
        try:
            found = _paper(path)
            if found is None:
                continue
            if found["paper"][0]["paper"] in {known["paper"] for known in rows["paper"]}:
                raise Malformed(f"another file has the paper {found['paper'][0]['paper']!r} too")  # noqa: TRY301
        except (Malformed, OSError, ValueError, TypeError, RecursionError) as error:
            notes.append(f"{path} is left out: {error}")
            continue
        for table in rows:
            rows[table] += found[table]
    return rows, notes


def _paper(path: Path) -> dict[str, list[Row]] | None:
    content = read_bytes(path)
    document = tomllib.loads(content.decode())
    paper = document.get("paper")
    if not isinstance(paper, dict):
        raise Malformed("it has no [paper]")
    if paper.keys() == {"id"} and not document.keys() & {"reported", "claim"}:
        return None
    digest = hashlib.sha256(content).hexdigest()
    head = row("paper", {**paper, "paper": paper.get("id"), "sha256": digest}, "[paper]")
    return {
        "paper": [head],
        "reported_value": [
            row("reported_value", _values(head, i, entry), f"[[reported]]: cell {i}")
            for i, entry in enumerate(_entries(document, "reported", "cells"))
        ],
        "claim": [
            row("claim", _values(head, i, entry) | {"document": dump(entry)}, f"[[claim]]: claim {i}")
            for i, entry in enumerate(_entries(document, "claim", "claims"))
        ],
    }


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


def _values(head: Row, i: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Labels are text, though a file may write a table's number as one."""
    labels = {column: str(entry[key]) for key, column in LABELS.items() if key in entry}
    return {**entry, **labels, "paper": head["paper"], "i": i}
