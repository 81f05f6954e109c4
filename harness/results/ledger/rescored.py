"""Metrics computed again from an attempt's kept draws: rescored.json, next to an unchanged result.json.

The record names the result that it belongs to, the code that computed the metrics, and a file of curves with its
checksum. The name of that file contains the checksum too, and the file is written first: a crash leaves either the old
pair or the new one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.results.ledger.attempt import checksum
from harness.system.files import parse_json, read_record, seal_holds

FILE = "rescored.json"


def read(folder: Path) -> tuple[dict[str, Any] | None, str]:
    """Return the record beside a result and "", or None and what is wrong with it; (None, "") if there is none."""
    try:
        record = parse_json(read_record(f"{folder}/{FILE}"))
    except FileNotFoundError:
        return None, ""
    except (OSError, ValueError) as error:
        return None, f"{FILE} cannot be read: {error}"
    whole = isinstance(record.get("metrics"), list) and "sha256" in record
    if not whole or not isinstance(record.get("files"), dict) or not seal_holds(record):
        return None, f"{FILE} is damaged"
    if record.get("attempt") != folder.name or record.get("result") != checksum(folder / "result.json"):
        return None, f"{FILE} belongs to another result"
    return record, ""
