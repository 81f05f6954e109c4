"""The nights of a suite in a results folder: nights/SUITE/000001.json, one file with the rows of each night."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.results import Status, now
from harness.system import read_json, sweep, write_json

FORMAT = 1

FOLDER = "nights"
MOST = 100
"""Most nights that are read: a night with the numbers of the night before is not recorded again."""
LATER = {"statistic": "mean", "of_seed": {}, "main": "", "told": [], "reference": ""}
"""Fields that earlier records of the format lack, with their values then. A field with this value is not written."""


@dataclass(frozen=True)
class MetricValues:
    """A metric of a row: its description, and its values by seed for the runs that have one.

    statistic   "mean": the number of a row is the mean of the values. "joint": it is a statistic of the chains of all
                seeds, and the values are exp(pseudo-values) of a jackknife over seeds, whose geometric mean it is
    of_seed     if it is "joint", the statistic of each seed's own chains
    """

    version: int
    unit: str
    direction: str
    target: float | None
    values: Mapping[int, float]
    statistic: str = "mean"
    of_seed: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class NightRow:
    """One line of results: `keys` and `statuses` of its runs by seed, its metrics by name.

    seconds   median seconds of sampling of a run, for information only
    main      the metric that ranks the row: the joint error where a truth is known, else the task's primary metric
    """

    task_version: int
    keys: Mapping[int, str]
    statuses: Mapping[int, str]
    metrics: Mapping[str, MetricValues]
    seconds: float | None = None
    main: str = ""

    def number(self, metric: str) -> float | None:
        """Return the number on the leaderboard: None if a finished seed has no value, and inf if it is a joint one."""
        measured = self.metrics[metric]
        joint = measured.statistic == "joint"
        counted = {Status.DONE, Status.DIVERGED} if joint else {Status.DONE}
        values = [measured.values.get(seed) for seed, status in sorted(self.statuses.items()) if status in counted]
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            return math.inf if joint and values else None
        return float(statistics.geometric_mean(known) if joint and min(known) > 0 else statistics.fmean(known))

    def lost(self) -> dict[int, str]:
        """Return the seeds without a result, with their status."""
        return {seed: status for seed, status in self.statuses.items() if status != Status.DONE}


Told = tuple[str, str, str, str, float | None]
"""Row, metric ("" for the row), outcome, reason ("" for none) and effect (None for none) of a printed finding."""


@dataclass(frozen=True)
class Night:
    """The results of a suite's runs.

    suite      digest of the suite's commands
    rows       by name
    standard   the rows of the reference whose numbers differ from this night's: the next night is compared with them
    accepted   whether this night's numbers were made the reference
    recorded   when the record was written
    told       what was found and is still so: row, metric, outcome, reason, effect
    reference  when the reference was recorded: the first night, or the last that was accepted
    """

    suite: str
    rows: Mapping[str, NightRow]
    standard: Mapping[str, NightRow] = field(default_factory=dict)
    accepted: bool = False
    recorded: str = ""
    told: Sequence[Told] = ()
    reference: str = ""

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the commands and the results, without times."""
        rows = {name: {**_plain(row), "seconds": None} for name, row in self.rows.items()}
        return _digest([FORMAT, self.suite, rows])

    def compared_with(self) -> dict[str, NightRow]:
        """Return the rows that the next night is compared with."""
        return {**self.rows, **self.standard}

    def to_json(self) -> dict[str, Any]:
        """Return the record of a night, with a checksum."""
        rows, standard = ({name: _plain(row) for name, row in part.items()} for part in (self.rows, self.standard))
        record = {"format": FORMAT, "suite": self.suite, "rows": rows, "standard": standard}
        record |= {"accepted": self.accepted, "recorded": self.recorded}
        record |= _written({"told": [list(finding) for finding in self.told], "reference": self.reference})
        return {**record, "sha256": _digest(record)}


def from_json(record: Mapping[str, Any] | None) -> Night | None:
    """Return the night of a record; None if the record is damaged, altered or in another format."""
    if record is None or record.get("format") != FORMAT:
        return None
    try:
        rows, standard = ({n: _row(row) for n, row in record[part].items()} for part in ("rows", "standard"))
        told = [(row, metric, outcome, why, effect) for row, metric, outcome, why, effect in record.get("told", ())]
        night = Night(
            record["suite"], rows, standard, record["accepted"], record["recorded"], told, record.get("reference", "")
        )
        whole = night.to_json()["sha256"] == record["sha256"]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return night if whole else None


def _row(record: Mapping[str, Any]) -> NightRow:
    metrics = {name: _metric(metric) for name, metric in record["metrics"].items()}
    keys, statuses = _by_seed(record["keys"]), _by_seed(record["statuses"])
    return NightRow(record["task_version"], keys, statuses, metrics, record["seconds"], record.get("main", ""))


def _metric(record: Mapping[str, Any]) -> MetricValues:
    return MetricValues(**{**record, **{name: _by_seed(record.get(name, {})) for name in ("values", "of_seed")}})


def _plain(row: NightRow) -> dict[str, Any]:
    """Return a row like `dataclasses.asdict`, without copying every value."""
    return _written({**vars(row), "metrics": {name: _written(vars(metric)) for name, metric in row.metrics.items()}})


def _written(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in LATER or value != LATER[name]}


def _by_seed(values: Mapping[str, Any]) -> dict[int, Any]:
    return {int(seed): value for seed, value in values.items()}


def _digest(record: Any) -> str:
    """Return the SHA-256 of the JSON text. Seeds are sorted as numbers: as text, 10 would come before 2."""
    return hashlib.sha256(json.dumps(record, sort_keys=True, allow_nan=False).encode()).hexdigest()


def suites(results: Path) -> list[str]:
    """Return the suites that have nights in a results folder."""
    return sorted(path.name for path in (results / FOLDER).glob("*/") if any(path.glob("*.json")))


def read(folder: Path, most: int, notes: list[str]) -> list[tuple[Path, Night]]:
    """Return the last nights in a folder, the latest first; add the files that could not be used to `notes`."""
    nights: list[tuple[Path, Night]] = []
    for path in sorted(folder.glob("*.json"), reverse=True):
        night = from_json(read_json(path)) if path.stem.isdigit() else None
        if night is None:
            notes.append(f"{path} is not a complete record of a night; it is left out")
        else:
            nights.append((path, night))
        if len(nights) == most:
            break
    return nights


class History:
    """The recorded nights of a suite. `notes` names files that could not be used."""

    def __init__(self, results: Path, suite: str) -> None:
        self.folder = results / FOLDER / suite
        self.notes: list[str] = []
        self._nights = read(self.folder, 2, self.notes)

    def again(self, tonight: Night) -> Night | None:
        """Return the record of tonight if it exists: the command was repeated and nothing changed."""
        latest = self._nights[0][1] if self._nights else None
        return latest if latest is not None and latest.digest == tonight.digest else None

    def last(self, tonight: Night) -> Night | None:
        """Return the night to compare with: the latest one before tonight."""
        others = self._nights[1:] if self.again(tonight) else self._nights
        return others[0][1] if others else None

    def earlier(self, tonight: Night) -> list[Night]:
        """Return the nights before tonight, the latest first; only the latest if it is the reference of every row."""
        last = self.last(tonight)
        if last is None or not last.standard:
            return [last] if last else []
        nights = [night for _, night in read(self.folder, MOST, [])]
        return nights[1:] if self.again(tonight) else nights

    def record(self, tonight: Night) -> None:
        """Record tonight, replacing its own record if it exists."""
        if self.again(tonight):
            path, recorded = self._nights[0][0], self._nights[0][1].recorded
        else:
            numbers = [int(path.stem) for path in self.folder.glob("*.json") if path.stem.isdigit()]
            path, recorded = self.folder / f"{max(numbers, default=0) + 1:06d}.json", tonight.recorded or now()
        self.folder.mkdir(parents=True, exist_ok=True)
        sweep(path)
        write_json(path, replace(tonight, recorded=recorded).to_json())
