"""Outcomes of the laws for samplers at the settings of rows, in files of `laws/`; `bench check --rows` writes them.

An outcome is "passed", with the laws from which the sampler is exempt, or "failed: " and why.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.system.files import SEAL, read_json, seal_holds, sealed, write_json

FOLDER = "laws"
VERSION = 2
"""Of what "passed" means; outcomes of another version count as not run."""
NOT_RUN = "not run"
BOARD = f"{NOT_RUN}: rows of a board rank after `bench verify --into` has run the laws at their settings"
"""The outcome of a row of an exported folder whose owner has not run its laws."""
PASSED, FAILED = "passed", "failed: "
IGNORES = "ignores the gradient"
"""What the law `potential` says of draws that do not move by the gradient: those of a baseline."""


def key(sampler: str, source: str, settings: str | Mapping[str, Any]) -> str:
    """Return the name of the outcome of a sampler, by its name and the hash of its code, at settings, maybe as JSON."""
    values = json.loads(settings) if isinstance(settings, str) else dict(settings)
    return hashlib.sha256(json.dumps([sampler, source, values], sort_keys=True).encode()).hexdigest()


def read(results: Path) -> dict[str, str]:
    """Return the outcomes of a results folder by key, without damaged files and those of another version."""
    records = {path.stem: read_json(path) or {} for path in (results / FOLDER).glob("*.json")}
    current = {name: record for name, record in records.items() if record.get("version") == VERSION}
    return {name: record["outcome"] for name, record in current.items() if SEAL in record and seal_holds(record)}


def write(results: Path, name: str, record: Mapping[str, Any]) -> None:
    """Store a record with the entry "outcome" in a results folder."""
    folder = results / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", sealed({**record, "version": VERSION}))
