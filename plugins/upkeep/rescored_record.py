"""Writes rescored.json, the metrics that were computed again from an attempt's kept draws, with its file of curves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.results import Attempt, checksum, commit, now, rescored
from harness.system import sealed

if TYPE_CHECKING:
    import numpy as np


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
    text = json.dumps(sealed(record), indent=1, sort_keys=True, allow_nan=False)
    commit.publish(attempt, {**contents, rescored.FILE: text.encode()})
