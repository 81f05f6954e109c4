"""Outcomes of the laws for samplers at the settings of rows, in files of `laws/`; `bench check --rows` writes them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.system.files import SEAL, read_json, seal_holds, sealed, write_json

FOLDER = "laws"
VERSION = 3
"""Of what "passed" means, and of the record; outcomes of another version count as not run."""


class Verdict(StrEnum):
    """What the laws say of a sampler; NONE: there are no laws for the rows of other software."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"
    NONE = "-"


@dataclass(frozen=True)
class Outcome:
    """A verdict, with the names of the laws that fail, or from which a sampler that passes is exempt, and the reason.

    ignores_gradient  whether draws do not move by the gradient, as those of a baseline do not
    """

    verdict: Verdict
    laws: tuple[str, ...] = ()
    reason: str = ""
    ignores_gradient: bool = False

    @property
    def why(self) -> str:
        """The laws and the reason."""
        return "; ".join(filter(None, (", ".join(self.laws), self.reason)))

    def __str__(self) -> str:
        """Return it for people."""
        between = ", exempt from " if self.verdict == Verdict.PASSED else ": "
        return f"{self.verdict}{between}{self.why}" if self.why else str(self.verdict)

    def to_json(self) -> str:
        """Return it as the text that `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """Return the outcome; `NOT_RUN` for "", and `BOARD` for any other text, which only a board can have."""
        try:
            return cls.of(json.loads(text)) if text else NOT_RUN
        except ValueError:
            return BOARD

    @classmethod
    def of(cls, entries: Any) -> Outcome:
        """Return the outcome of a record's entries; raise ValueError if they are not those of one."""
        match entries:
            case {"verdict": verdict, "laws": [*names], "reason": str(reason), "ignores_gradient": bool(ignores)}:
                return cls(Verdict(verdict), tuple(map(str, names)), reason, ignores)
        raise ValueError("it has not the entries of an outcome")


NOT_RUN = Outcome(Verdict.NOT_RUN)
NONE = Outcome(Verdict.NONE)
BOARD = Outcome(
    Verdict.NOT_RUN, reason="rows of a board rank after `bench verify --into` has run the laws at their settings"
)
"""The outcome of a row of an exported folder whose owner has not run its laws."""


def key(sampler: str, source: str, settings: str | Mapping[str, Any]) -> str:
    """Return the name of the outcome of a sampler, by its name and the hash of its code, at settings, maybe as JSON."""
    values = json.loads(settings) if isinstance(settings, str) else dict(settings)
    return hashlib.sha256(json.dumps([sampler, source, values], sort_keys=True).encode()).hexdigest()


def read(results: Path) -> dict[str, Outcome]:
    """Return the outcomes of a results folder by key, without damaged files and those of another version."""
    records = {path.stem: read_json(path) or {} for path in (results / FOLDER).glob("*.json")}
    current = {name: record for name, record in records.items() if record.get("version") == VERSION}
    outcomes: dict[str, Outcome] = {}
    for name, record in current.items():
        with suppress(ValueError):
            outcomes |= {name: Outcome.of(record.get("outcome"))} if SEAL in record and seal_holds(record) else {}
    return outcomes


def write(results: Path, name: str, outcome: Outcome, about: Mapping[str, Any]) -> None:
    """Store an outcome in a results folder, in a record that also says what it is about."""
    folder = results / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", sealed({**about, "outcome": asdict(outcome), "version": VERSION}))
