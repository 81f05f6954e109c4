"""Files that are either whole or not there: written aside, synced, renamed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path` so that a reader, or a crash, sees all of it or nothing."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """`write_whole` for a record; NaN is refused, JSON has none."""
    write_whole(path, json.dumps(record, indent=1, sort_keys=True, allow_nan=False).encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """The record at `path`; None where it is missing, cut off or no object."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None
