"""Truths that `bench truth` computed: one file for each target, in the folder `truths/` of a results folder.

A task that states no truth of its own gets the stored one when a worker makes the task, so no run key depends on it.
The result of a run has the checksum of the truth that its metrics were computed with.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from harness.contracts.task import Task
from harness.contracts.truth import Reference, Truth
from harness.results.spec import RunSpec
from harness.runs.plugin_metadata import instance
from harness.system.errors import DataError
from harness.system.files import SEAL, read_json, seal_holds

GRADIENTS_ONLY = ("batch", "gradient_noise")
"""Task settings that change the noise of the gradients and not the target."""

FUNCTIONS = "functions"
"""Name of the field of a record about functions of theta: their number. Other records are about theta itself."""


def file_of(results: Path, spec: RunSpec) -> Path:
    """Return the file of the truth of a run's target, which the task's code, data and settings identify."""
    params = {name: value for name, value in spec.task.params.items() if name not in GRADIENTS_ONLY}
    target = json.dumps([spec.task.source, spec.task_version, spec.data, params], sort_keys=True)
    return results / "truths" / f"{spec.task.name}-{hashlib.sha256(target.encode()).hexdigest()[:16]}.json"


def read(results: Path, spec: RunSpec) -> dict[str, Any] | None:
    """Return the stored record, or None if there is none. `DataError` if it is damaged."""
    path = file_of(results, spec)
    if not path.exists():
        return None
    record = read_json(path)
    if record is None or SEAL not in record or not seal_holds(record):
        raise DataError(f"{path} is damaged; delete it and compute it again by `bench truth {spec.task.name}`")
    return record


def task_with_truth(results: Path, spec: RunSpec) -> Task:
    """Return the task of a run, with the truth or the reference that is stored for it."""
    task: Task = instance(spec.task.target, spec.task.params)
    record = read(results, spec)
    if record is not None and FUNCTIONS in record:
        object.__setattr__(task, "stored_reference", Reference.of_record(record))
    elif record is not None:
        object.__setattr__(task, "stored_truth", Truth.of_record(record))
    return task


def checksum(task: Task) -> str:
    """Return the checksum of a task's stored truth or reference, or "" if it has none."""
    stored = task.stored_truth or task.stored_reference
    return stored.checksum if stored else ""
