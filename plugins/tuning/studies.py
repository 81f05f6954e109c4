"""Studies of tuned settings that `bench tune` found, in a results folder or in a plugin, for `--settings STUDY`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import DataError, Registry, UsageError
from harness.contracts import Offer
from harness.results import spec
from harness.runs import source_hash
from harness.system import read_json

FOLDER = "tuning"
FORMAT = 1
NAME = "[a-z][a-z0-9-]*"
_TYPES = {"method": str, "task": str, "protocol": str, "settings": dict, "trials": int, "passes": float, "code": dict}

PairNames = tuple[str, str, str]
"""The names of a method, a task and a protocol."""


@dataclass(frozen=True)
class Study:
    """A study: its records as `bench tune` writes them, by method, task and protocol."""

    name: str
    records: Mapping[PairNames, Mapping[str, Any]]

    def layer(self, registry: Registry, pair: tuple[Offer, Offer, Offer], protocol: str) -> dict[str, spec.Origin]:
        """Return the tuned settings of (method, sampler, task) under a protocol. `UsageError` if there are none."""
        method, sampler, task = pair
        record = self.records.get((method.name, task.name, protocol))
        if record is None:
            where = f"{task.name}@{protocol}"
            raise UsageError(
                f"study {self.name} has no settings of {method.name} on {where}; to find some: "
                f"bench tune --sampler {method.name} --task {where} --study {self.name}"
            )
        schedule = registry.find("schedules", str(record["settings"]["schedule"]), prefer=sampler.distribution)
        parts = {"sampler": sampler, "schedule": schedule, "task": task}
        changed = changed_code(record, {part: source_hash(offer.target) for part, offer in parts.items()})
        text = f"study {self.name}: {record['trials']} trials, {record['passes']:.2g} data passes"
        text += f"; the code of the {changed} has changed since" if changed else ""
        return {name: spec.Origin(value, spec.TUNED, text) for name, value in record["settings"].items()}


def changed_code(record: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    """Return the parts whose code differs from the record, for example "sampler and the task". "" if none."""
    return " and the ".join(part for part, source in sources.items() if record["code"].get(part) != source)


def path(results: Path, study: str) -> Path:
    """Return the file of a study in a results folder. `UsageError` for an invalid name of a study."""
    if not re.fullmatch(NAME, study):
        raise UsageError(f"{study!r:.80} is not a name of a study: it must match {NAME}")
    return results / FOLDER / f"{study}.json"


def read(file: Path) -> dict[PairNames, Mapping[str, Any]]:
    """Read the records of a study, by method, task and protocol. `DataError` for a file that is not a study."""
    record = read_json(file) or {}
    tuned = record.get("tuned")
    whole = isinstance(tuned, list) and all(
        isinstance(one, dict)
        and all(isinstance(one.get(name), kind) for name, kind in _TYPES.items())
        and "schedule" in one["settings"]
        for one in tuned
    )
    if record.get("format") != FORMAT or not whole:
        raise DataError(f"{file} is not a study of this version of bench; delete it and run `bench tune` again")
    assert isinstance(tuned, list)
    return {(one["method"], one["task"], one["protocol"]): one for one in tuned}


def load(registry: Registry, results: Path, study: str) -> Study:
    """Return the study of that name. `UsageError` if there is none.

    Its records are those of the plugins and of the results folder. The results folder's replace the plugins'.
    """
    files = [file for plugin in registry.plugins for file in plugin.studies if file.stem == study]
    files += [file] if (file := path(results, study)).is_file() else []
    records: dict[PairNames, Mapping[str, Any]] = {}
    for file in files:
        records |= read(file)
    if not records:
        known = {file.stem for plugin in registry.plugins for file in plugin.studies}
        known |= {file.stem for file in (results / FOLDER).glob("*.json")}
        raise UsageError(f"there is no study {study!r:.80}; known: {', '.join(sorted(known)) or 'none'}")
    return Study(study, records)
