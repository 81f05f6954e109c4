"""A cache of values that take a report long to compute from a run: `figures/REPORT.KEY.json` in the results folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.system.files import read_json, seal_holds, sealed, write_json

FOLDER = "figures"


def find(results: Path, report: str, key: str, made_from: Mapping[str, Any]) -> Any | None:
    """Return the value that was kept for a run if it was made from the same inputs, else None."""
    kept = read_json(_path(results, report, key)) or {}
    return kept.get("value") if seal_holds(kept) and kept.get("made_from") == made_from else None


def keep(results: Path, report: str, key: str, made_from: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """Return the value of `make`, and keep it for `find` unless the folder cannot be written to."""
    value = make()
    path = _path(results, report, key)
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        write_json(path, sealed({"made_from": dict(made_from), "value": value}))
    return value


def _path(results: Path, report: str, key: str) -> Path:
    return results / FOLDER / f"{report}.{key}.json"
