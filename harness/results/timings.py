"""Seconds a step of each row, in a file of `timings/` for each group of runs; `bench time` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.system.files import SEAL, read_json, seal_holds

FOLDER = "timings"


@dataclass(frozen=True)
class Timing:
    """The seconds of sampling that a step of a run takes, alone and on one thread of a machine."""

    seconds_a_step: float
    machine: str


def read(results: Path) -> dict[str, Timing]:
    """Return the timings of a results folder by group, without damaged files."""
    records = {path.stem: read_json(path) or {} for path in (results / FOLDER).glob("*.json")}
    return {
        group: Timing(record["seconds_a_step"], record["machine"])
        for group, record in records.items()
        if SEAL in record and seal_holds(record)
    }
