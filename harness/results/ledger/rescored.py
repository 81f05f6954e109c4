"""Metrics computed again from an attempt's kept draws: rescored.json, next to an unchanged result.json.

The record names the result that it belongs to, the code that computed the metrics, and a file of curves with its
checksum. The name of that file contains the checksum too, and the file is written first: a crash leaves either the old
pair or the new one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.results.ledger.attempt import Attempt, checksum, now
from harness.results.ledger.commit import publish
from harness.system.files import json_bytes, parse_json, read_record, seal_holds, sealed

if TYPE_CHECKING:
    import numpy as np

FILE = "rescored.json"


def write(
    attempt: Attempt, metrics: list[dict[str, Any]], curves: Mapping[str, np.ndarray], code: Mapping[str, Any]
) -> None:
    """Write metrics (as in result.json) and curves ("NAME/x", "NAME/y") beside the result of a concluded attempt.

    Who derives the metrics from those that the attempt has must hold the run meanwhile. Files of earlier curves stay,
    because somebody may be reading them; `bench gc` lists them.
    """
    from safetensors.numpy import save

    files: dict[str, str] = {}
    contents: dict[str, bytes] = {}
    if curves:
        content = save({name: array.copy(order="C") for name, array in curves.items()})
        digest = hashlib.sha256(content).hexdigest()
        files[f"rescored-{digest[:12]}.safetensors"] = digest
        contents[f"rescored-{digest[:12]}.safetensors"] = content
    record = {
        "attempt": attempt.id, "result": checksum(attempt.path / "result.json"), "time": now(), "code": dict(code),
        "metrics": metrics, "files": files,
    }  # fmt: skip
    publish(attempt, {**contents, FILE: json_bytes(sealed(record))})


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
