"""What was worked out before, in the user's cache folder: texts by what they depend on. It may be lost at any time."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from harness.system.files import SEAL, read_json, seal_holds, sealed, write_json


def folder(kind: str) -> Path:
    """The folder of one kind of things: in `BENCH_CACHE`, else in the user's cache."""
    place = os.environ.get("BENCH_CACHE")
    if not place:
        import platformdirs

        place = platformdirs.user_cache_dir("sgmcmc-bench")
    return Path(place) / kind


def read(kind: str, key: str) -> str | None:
    """The text that was kept under a key; None if it is missing, or is not what was written."""
    record = read_json(_path(kind, key)) or {}
    text = record.get("fact")
    return text if isinstance(text, str) and SEAL in record and seal_holds(record) else None


def keep(kind: str, key: str, text: str) -> None:
    """Keep a text; a cache that cannot be written only costs time."""
    path = _path(kind, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, sealed({"fact": text}), sync=False)
    except OSError:
        return


def _path(kind: str, key: str) -> Path:
    return folder(kind) / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
