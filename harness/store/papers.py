"""The papers' TOML files -> rows of paper, reported_value and claim."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.ledger.files import read_bytes
from harness.store.record import Malformed, Row, dump, row

LABELS = {"table": "table_label", "row": "row_label", "column": "column_label"}


def checksum(path: Path) -> str:
    """SHA-256 of a file; empty where it cannot be read."""
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except OSError:
        return ""


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
            row("reported_value", _values(head, i, entry), f"[[reported]] {i}")
            for i, entry in _tables(document, "reported")
        ],
        "claim": [
            row("claim", _values(head, i, entry) | {"document": dump(entry)}, f"[[claim]] {i}")
            for i, entry in _tables(document, "claim")
        ],
    }


def _tables(document: Mapping[str, Any], key: str) -> list[tuple[int, Mapping[str, Any]]]:
    tables = document.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise Malformed(f"{key} is not a list of tables, [[{key}]]")
    return list(enumerate(tables))


def _values(head: Row, i: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Labels are text, though a file may write a table's number as one."""
    labels = {column: str(entry[key]) for key, column in LABELS.items() if key in entry}
    return {**entry, **labels, "paper": head["paper"], "i": i}
