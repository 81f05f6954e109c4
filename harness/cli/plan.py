"""`bench plan`: which runs of a command are done, why the others are not, and their cost."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.cli import context, options, rates
from harness.cli.launch import check_size, devices_for
from harness.reporting.report import Result, table
from harness.results.ledger.ledger import Ledger
from harness.results.records import Status
from harness.runs.plan import MAX_RUNS, RunRequest
from harness.runs.plan import plan as make_plan
from harness.system.files import read_json


@options.with_request
def plan(asked: RunRequest, devices: options.AnyDevices = "auto", max_runs: options.MaxRuns = MAX_RUNS) -> Result:
    """Show what `bench run` with the same options would do and what it would cost. Runs nothing.

    Examples:
        bench plan --sampler sgld,csgld --task mixture25 --seeds 0-9 --chains 4
        bench plan --sampler hmc --task blr-heart --budget quick --json
    """
    here = context.current()
    ledger = Ledger(here.results)
    ledger.check_version()
    kind, named = devices_for(devices, asked.tasks)
    asked = replace(asked, device=kind)
    check_size([asked], max_runs)
    planned = make_plan(context.plugins(), asked, ledger, rates.known(here.results, named[0]))
    paces = _paces(here.results)
    rows = [_row(item, paces) for item in planned]
    groups: dict[str, list[dict[str, Any]]] = {}
    for item, row in zip(planned, rows, strict=True):
        groups.setdefault(item.spec.group, []).append(row)
    columns = ["method", "task", "seeds", "to do", "why", "seconds", "data passes", "chains", "steps"]
    left = [row for row in rows if row["to_do"]]
    known = [row["seconds"] for row in left if row["seconds"] is not None]
    cost = f", about {sum(known):,.0f} s of one core" if left and len(known) == len(left) else ""
    failed = sum(item.standing.failed for item in planned)
    done = f"{len(rows) - len(left) - failed} done before" + (f", {failed} failed before" if failed else "")
    note = f"{context.count(len(rows), 'run')}: {done}, {len(left)} to do{cost}"
    return Result([table([_line(members) for members in groups.values()], columns)], rows, notes=[note])


def _row(item: Any, paces: dict[tuple[str, str, int], float]) -> dict[str, Any]:
    spec, standing = item.spec, item.standing
    pace = paces.get((spec.method, spec.task.name, spec.chains))
    return {
        "run_key": spec.key, "method": spec.method, "task": spec.task.name, "protocol": spec.protocol,
        "seed": spec.seed, "chains": spec.chains, "steps": spec.steps, "budget": spec.budget, "status": standing.status,
        "to_do": not standing.cached and not standing.failed, "why": _why(item), "passes": item.passes,
        "seconds": None if pace is None or standing.cached else round(pace * spec.steps, 3),
    }  # fmt: skip


def _why(item: Any) -> str:
    status, reason = item.standing.status, item.standing.reason
    if item.standing.cached:
        return f"cached: {status}"
    if item.standing.failed:
        return f"{status} before ({reason}); --retry runs it again"
    if status == Status.NEW:
        return _difference(item.spec)
    if status == Status.DAMAGED:
        return f"done before, but {reason}; it is run again"
    resumable = item.standing.attempt is not None and any(True for _ in item.standing.attempt.checkpoints())
    return f"{status}: resumes from its checkpoint" if resumable else f"{status} without a checkpoint: starts again"


def _difference(spec: Any) -> str:
    """How this run differs from the nearest finished run of the same method, task and seed."""
    like = (spec.method, spec.task.name, spec.seed)
    before = [record for (*who, _), record, _ in _finished(context.current().results) if tuple(who) == like]
    found: list[list[str]] = [_differing(spec.canonical(), record) for record in before]
    if not found:
        return "never run"
    nearest = min(found, key=len)
    return "differs from a finished run in " + ", ".join(nearest)


def _differing(ours: dict[str, Any], theirs: dict[str, Any], prefix: str = "") -> list[str]:
    names = []
    for name, value in ours.items():
        other = theirs.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            names += _differing(value, other, f"{prefix}{name}.")
        elif value != other:
            names.append(f"{prefix}{name}")
    return names


@functools.cache
def _finished(results: Path) -> list[tuple[tuple[Any, ...], dict[str, Any], float | None]]:
    """(method, task, seed, chains), spec, and seconds a step of every concluded attempt in a results folder.

    Unreadable attempts are skipped: they are used only to explain why a run is new and how long it takes.
    """
    found = []
    ledger = Ledger(results)
    for attempt in (attempt for key in ledger.all_keys() for attempt in ledger.attempts(key)):
        spec, result = read_json(attempt.path / "spec.json") or {}, read_json(attempt.path / "result.json") or {}
        try:
            who = (spec["method"], spec["task"]["name"], spec["seed"], spec["chains"])
            steps = result.get("steps_done")
            pace = sum(result["seconds"].values()) / steps if steps else None
            hash(who)
        except (KeyError, TypeError, AttributeError, ArithmeticError):
            continue
        found.append((who, spec, pace if pace is None or math.isfinite(pace) else None))
    return found


def _paces(results: Path) -> dict[tuple[str, str, int], float]:
    return {(who[0], who[1], who[3]): pace for who, _, pace in _finished(results) if pace is not None}


def _line(members: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = members[0]
    left = [row for row in members if row["to_do"]]
    seconds = [row["seconds"] for row in left]
    reasons = dict.fromkeys(row["why"] for row in (left or members))
    return {
        **{name: first[name] for name in ("method", "chains", "steps")},
        "task": f"{first['task']}@{first['protocol']}",
        "seeds": len(members),
        "to do": len(left),
        "why": "; ".join(reasons),
        "data passes": f"{sum(row['passes'] * row['chains'] for row in left):,.0f}",
        "seconds": "not measured" if None in seconds else f"{sum(seconds):,.1f}",
    }
