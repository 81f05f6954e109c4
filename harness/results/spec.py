"""RunSpec: all that decides the numbers of one run, its canonical form and its key."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

KEY_VERSION = 1
"""Version of the canonical form below."""

ENGINE = 2
"""Raised when the loop, the streams or a step's arithmetic changes numbers; a golden test fails until it is."""

GIVEN = "given"
"""Provenance of knowledge that a task hands to a sampler at no cost."""

_PLAIN = (
    "key_version", "engine", "steps", "burn_in", "thin", "seed", "chains", "dtype", "device", "deterministic",
    "compile",
)  # fmt: skip
_GPU = ("tf32", "cudnn_benchmark")
"""What decides numbers on a GPU alone: it stands in the canonical form only there."""

_NESTED = ("task_version", "data", "origins")


@dataclass(frozen=True)
class Component:
    """A sampler, schedule or task in a run: its name, the hash of its code, its resolved parameters."""

    name: str
    target: str
    source: str
    params: Mapping[str, Any]

    def canonical(self) -> dict[str, Any]:
        """What of it decides numbers; where the class lives does not."""
        return {"name": self.name, "source": self.source, "params": dict(self.params)}


@dataclass(frozen=True)
class Origin:
    """Where a setting came from: its value, how much to trust it, and the text of its source."""

    value: Any
    provenance: str
    source: str = ""


@dataclass(frozen=True)
class RunSpec:
    """One run: sampler x schedule x task x seed, at a budget. `method`, `budget` and `origins` only label it.

    device            the kind, "cpu" or "cuda": their random generators give other numbers
    tf32              on a GPU, whether products and convolutions of float32 may round their inputs to TF32
    cudnn_benchmark   on a GPU, whether cuDNN times its algorithms and takes the fastest
    """

    sampler: Component
    schedule: Component
    task: Component
    task_version: int
    protocol: str
    data: str
    steps: int
    burn_in: int
    thin: int
    seed: int
    chains: int
    dtype: str
    device: str = "cpu"
    deterministic: bool = True
    compile: str = "plain"
    tf32: bool = False
    cudnn_benchmark: bool = False
    method: str = ""
    budget: str = ""
    origins: Mapping[str, Origin] = field(default_factory=dict)

    def canonical(self) -> dict[str, Any]:
        """The parts that the key is made of, as plain data."""
        return {
            "key_version": KEY_VERSION,
            "engine": ENGINE,
            "sampler": self.sampler.canonical(),
            "schedule": self.schedule.canonical(),
            "task": {
                **self.task.canonical(),
                "version": self.task_version,
                "protocol": self.protocol,
                "data": self.data,
            },
            "steps": self.steps,
            "burn_in": self.burn_in,
            "thin": self.thin,
            "seed": self.seed,
            "chains": self.chains,
            "dtype": self.dtype,
            "device": self.device,
            "deterministic": self.deterministic,
            "compile": self.compile,
            **({} if self.device == "cpu" else {name: getattr(self, name) for name in _GPU}),
        }

    @functools.cached_property
    def key(self) -> str:
        """SHA-256 of the canonical form."""
        return _digest(self.canonical())

    @functools.cached_property
    def group(self) -> str:
        """The key without the seed: runs that share it are replicates of one row."""
        return _digest({name: value for name, value in self.canonical().items() if name != "seed"})

    def to_json(self) -> dict[str, Any]:
        """The record that is kept in the attempt directory."""
        record = self.canonical()
        record["sampler"]["target"] = self.sampler.target
        record["schedule"]["target"] = self.schedule.target
        record["task"]["target"] = self.task.target
        return {
            "key": self.key,
            "group": self.group,
            "method": self.method,
            "protocol": self.protocol,
            "budget": self.budget,
            **record,
            "origins": {name: asdict(origin) for name, origin in sorted(self.origins.items())},
        }


def from_record(record: Mapping[str, Any]) -> RunSpec:
    """The RunSpec that `to_json` wrote, of whichever engine; ValueError where the record is not whole."""
    try:
        parts: dict[str, Any] = {name: _component(record[name]) for name in ("sampler", "schedule", "task")}
        absent = _GPU if record["device"] == "cpu" else ()
        plain = {f.name: record[f.name] for f in fields(RunSpec) if f.name not in (*parts, *_NESTED, *absent)}
        task = record["task"]
        origins = {name: Origin(**origin) for name, origin in record["origins"].items()}
        return RunSpec(**parts, **plain, task_version=task["version"], data=task["data"], origins=origins)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"is not a whole record of a run: {error}") from None


def _component(record: Mapping[str, Any]) -> Component:
    return Component(**{f.name: record[f.name] for f in fields(Component)})


def recorded_key(record: Mapping[str, Any]) -> str:
    """The key of the run that a stored record describes, made anew from its parts; "" where parts are missing."""
    try:
        parts = {name: record[name] for name in (*_PLAIN, *(() if record["device"] == "cpu" else _GPU))}
        for name in ("sampler", "schedule", "task"):
            parts[name] = {entry: value for entry, value in record[name].items() if entry != "target"}
        return _digest(parts)
    except (KeyError, AttributeError, ValueError):
        return ""


def _digest(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
