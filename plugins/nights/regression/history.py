"""The nights of a suite in a results folder: nights/SUITE/000001.json, one file per night, in order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.results import now
from harness.system import read_json, sweep, write_json
from plugins.nights.regression.night import Night, from_json

FOLDER = "nights"


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
    """The last two recorded nights of a suite. `notes` names files that could not be used."""

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

    def record(self, tonight: Night) -> None:
        """Record tonight, replacing its own record if it exists."""
        if self.again(tonight):
            path, recorded = self._nights[0][0], self._nights[0][1].recorded
        else:
            numbers = [int(path.stem) for path in self.folder.glob("*.json") if path.stem.isdigit()]
            path, recorded = self.folder / f"{max(numbers, default=0) + 1:06d}.json", now()
        self.folder.mkdir(parents=True, exist_ok=True)
        sweep(path)
        write_json(path, replace(tonight, recorded=recorded).to_json())
