"""Seconds a step of each row, as `bench time` measures them: a file in `timings/` for each group of runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.system.files import SEAL, read_json, seal_holds, sealed, write_json

FOLDER = "timings"


@dataclass(frozen=True)
class Timing:
    """The seconds of sampling that a step of a run takes, alone and on one thread of a machine."""

    seconds_a_step: float
    machine: str


def write(results: Path, group: str, timing: Timing) -> None:
    """Store the timing of a group of runs in a results folder."""
    (results / FOLDER).mkdir(exist_ok=True)
    write_json(results / FOLDER / f"{group}.json", sealed(vars(timing)))


def read(results: Path) -> dict[str, Timing]:
    """Return the timings of a results folder by group, without damaged files."""
    records = {path.stem: read_json(path) or {} for path in (results / FOLDER).glob("*.json")}
    return {
        group: Timing(record["seconds_a_step"], record["machine"])
        for group, record in sorted(records.items())
        if SEAL in record and seal_holds(record)
    }
