"""Attempt directories in the ledger's format, made up: what the tests of store and command line read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import specs
from safetensors.numpy import save

from harness.results.ledger import seals
from harness.results.records import AttemptResult, ValueRow
from harness.results.spec import Component, Origin
from harness.system.columns import document

METRICS = ("modes_covered", "mass_error", "covariance_ratio", "low_error")


def run_spec(seed=0, task="mixture25", method="sgld", **changes):
    """A RunSpec; `changes` are its fields."""
    schedule = "cyclical" if method.startswith("c") else "constant"
    params = {"step_size": 0.02, "temperature": 1.0}
    origins = {
        "schedule.step_size": Origin(0.02, "paper", "section 5.1"),
        "sampler.gradient_variance": Origin(0.0, "default", "none, as published"),
    }
    fields = {
        "sampler": Component("sgld", "m:C", "s" * 8, {"gradient_variance": 0.0}),
        "schedule": Component(schedule, "m:C", "c" * 8, params), "task": Component(task, "m:C", "t" * 8, {}),
        "method": method, "protocol": "csgmcmc", "budget": "quick", "steps": 1000, "burn_in": 100, "chains": 4,
        "origins": origins,
    }  # fmt: skip
    return specs.run_spec(seed, **{**fields, **changes})


def run_key(seed=0, task="mixture25", method="sgld"):
    return run_spec(seed, task, method).key


def spec(seed=0, task="mixture25", method="sgld", key="", **changes):
    """The record of a run; another `key` makes it that of no run."""
    document = run_spec(seed, task, method, **changes).to_json()
    return {**document, "key": key or document["key"]}


def environment(**changes):
    document = {
        "bench": "0.1.0", "python": "3.11.7", "platform": "Linux 6 x86_64", "cpu": "a processor", "cores": 2,
        "gpu": None, "torch": "2.9.0", "device": "cpu", "threads": 1, "deterministic": True,
        "packages": {"numpy": "2.0.0"},
        "code": {"sgmcmc-bench": {"version": "0.1.0", "commit": "a" * 40, "dirty": False}},
    }  # fmt: skip
    document |= changes
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return document | {"id": hashlib.sha256(text.encode()).hexdigest()}


def ended(key, **changes):
    """What a run that ended came to; `changes` are fields of the record."""
    metrics = tuple(
        ValueRow(name=name, value=0.5 + i, unit="modes", direction="max", summary="", is_primary=i == 0)
        for i, name in enumerate(METRICS)
    )
    fields = {
        "status": "done", "started": "2026-01-02T03:04:05+00:00", "finished": "2026-01-02T03:05:05.250000+00:00",
        "seconds_sampling": 50.0, "seconds_observing": 8.0, "seconds_checkpoint": 1.0, "seconds_setup": 1.0,
        "steps_done": 1000, "passes": 1000.0, "passes_per_step": 1.0,
        "draws_kept": 900, "draws_stored": 900, "draws_stride": 1, "metrics": metrics,
    }  # fmt: skip
    return AttemptResult(run_key=key, **{**fields, **changes})


def result(attempt, key, files, **changes):
    """result.json of it; `changes` are of the document."""
    return document(ended(key, attempt=attempt, files=files)) | changes


def unfinished(results, seed=0, number=0, events=("created", "started"), **changes):
    """An attempt that has not concluded; its directory."""
    document = spec(seed, **changes)
    key = document["key"]
    attempt = f"20260102T0304{number:02d}-{seed:06x}"
    folder = Path(results) / "runs" / key[:2] / key / attempt
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps(document))
    (folder / "environment.json").write_text(json.dumps(environment()))
    lines = [
        {"time": f"2026-01-02T03:{number:02d}:{i:02d}+00:00", "event": event, "step": i}
        for i, event in enumerate(events)
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def conclude(folder, points=50, **changes):
    """Give an attempt its curves and its result.json."""
    x = np.arange(points, dtype=np.float64)
    y = np.sqrt(x)[None].repeat(4, 0)
    y[0, 0] = np.nan
    content = save({"b2/x": x, "b2/y": y, "modes/x": x, "modes/y": y[:1]})
    (folder / "curves.safetensors").write_bytes(content)
    files = {"curves.safetensors": hashlib.sha256(content).hexdigest()}
    document = result(folder.name, folder.parent.name, files, **changes)
    (folder / "result.json").write_text(json.dumps(document))
    return as_made_here(folder)


def as_made_here(folder):
    """Seal the records of an attempt as its worker would; without a key of the results folder, nothing is done."""
    seals.seal(folder, {name: (folder / name).read_bytes() for name in seals.SEALED if (folder / name).exists()})
    return folder


def concluded(results, seed=0, number=0, method="sgld", task="mixture25", **changes):
    """A concluded attempt; its directory."""
    events = ("created", "started", "finished")
    return conclude(unfinished(results, seed, number, events, method=method, task=task), **changes)


PAPER = """
[paper]
id = "a-paper"
title = "A title"
citation = "Somebody, 2020"

[[reported]]
table = 4
row = "SGLD"
column = "modes"
method = "sgld"
task = "mixture25"
protocol = "csgmcmc"
chains = 1
metric = "modes_covered"
value = 1.8
error = 0.1
error_kind = "unknown"
n = 10

[[claim]]
table = 4
statement = "csgld covers more modes than sgld"
better = "csgld"
worse = "sgld"
task = "mixture25"
metric = "modes_covered"
"""
