"""Runs that cannot be compiled: what a worker found about one is kept in the user's cache, and planning reads it.

So a run whose mode is not a setting is planned as the plain run that it will be, with that key. A fact is about one
version of the code of sampler, task, settings and harness (all are part of the key of a run's group), one torch and one
C++ compiler.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
from dataclasses import replace
from pathlib import Path

import harness
from harness.results.spec import RunSpec
from harness.runs.source import hash_of
from harness.system import cache
from harness.system.cpp import identity

_known: dict[str, str | None] = {}
"""What this process knows, by the group of the runs: why they cannot be compiled, or None."""


def why(spec: RunSpec) -> str | None:
    """Return why a run is known not to compile, or None."""
    if spec.execution.compile == "plain":
        return None
    if spec.group not in _known:
        _known[spec.group] = cache.read("facts", _fact(spec))
    return _known[spec.group]


def keep(spec: RunSpec, reason: str, *, lasting: bool) -> None:
    """Keep why a run cannot be compiled: for this process, and if that is lasting, for later ones."""
    _known[spec.group] = reason
    if lasting:
        cache.keep("facts", _fact(spec), reason)


def asked_mode(spec: RunSpec) -> str | None:
    """Return the mode of execution that a setting asks for, or None if the plan chose it."""
    origin = spec.origins.get("run.compile")
    return None if origin is None or origin.value in (None, "none") else str(origin.value)


def in_mode(spec: RunSpec, mode: str) -> RunSpec:
    """Return the same run in another mode."""
    return replace(spec, execution=replace(spec.execution, compile=mode))


def _fact(spec: RunSpec) -> str:
    return json.dumps(["uncompiled", _code(), spec.group, dict(identity())])


@functools.cache
def _code() -> str:
    """Return the hash of the code that compiles steps, and of torch's version."""
    folder = Path(harness.__file__).parent / "engine" / "stepping"
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    return hash_of(files, [importlib.metadata.version("torch")])
