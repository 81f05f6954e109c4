"""Which runs of a plan are done, why the others are not, and their cost."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness import Bench, BenchError, Registry, Result
from harness.reporting import table
from harness.results import FINAL, Ledger, RunSpec, Status
from harness.runs import Planned, plan, task_facts
from harness.system import count, read_json

OVERHEAD = {"plain": 2e4, "compiled": 500.0, "opaque": 1e6, "draw": 50.0, "opaque draw": 1e4}
"""The overhead of a step by its mode, in parameters times terms of a gradient, and of an observed draw, in parameters.

The overhead takes as long as this amount of arithmetic. Amounts, unlike seconds, hold on machines of any speed. They
were measured on mixtures, Gaussians, logistic regressions and networks of 700 to 22,000 parameters, with 1 to 1,000
chains, on one core.
"""
GPU = 100.0
"""How many times faster a GPU's arithmetic is than a core's, at the same overhead of a step. Assumed, not measured."""
UPDATE = 30
"""Terms of a minibatch that cost as much as the noise and update of a parameter, which take 150 multiply-adds. A term
takes 3 to 6.
"""
PRODUCTS, ACTIVATIONS = 0.1, 30.0
"""The cost of a term of a network without convolutions, in the same unit: for each parameter, as products of matrices
are that fast, and for the root of their number, which stands for the units of its layers. Measured on one core with
networks of 1,000 to 22,000 parameters and batches of 32 to 512: the predicted ratio of any two is within a factor 1.6
of the measured one. A convolution uses a weight many times for each term, which makes up for it.
"""

MOST_JOBS = 6
"""Most jobs of a group whose sizes are listed."""


def costs(bench: Bench, planned: Sequence[Planned], places: Sequence[Any], *, errors: bool = False) -> Result:
    """Return which of the planned runs are done, why the others are not, and their cost; a row for each group.

    The jobs, whose runs advance together, are those of `bench run` with as many workers as there are `places`. With
    `errors`, rows have the joint error of linear samplers on tasks with a truth, from `error_forecast`.
    """
    ended = functools.cache(lambda: _ended(bench.results))  # read when it is first needed, and once
    left = [item for item in planned if not item.standing.cached and not item.standing.failed]
    blocks = plan.divide(left, len(places))
    job = {item.spec.key: i for i, block in enumerate(blocks) for item in block}
    sizes: dict[str, list[int]] = {}
    for block in blocks:
        sizes.setdefault(block[0].spec.group, []).append(len(block))
    first = {item.spec.group: item for item in reversed(planned)}
    estimates = {
        group: _estimate(bench.registry, ended, item, max(sizes.get(group, [1]))) for group, item in first.items()
    }
    ahead = {group: _error(item) for group, item in first.items()} if errors else {}
    rows = [
        _row(ended, item, estimates[item.spec.group][0], job.get(item.spec.key)) | ahead.get(item.spec.group, {})
        for item in planned
    ]
    groups: dict[str, list[dict[str, Any]]] = {}
    for item, row in zip(planned, rows, strict=True):
        groups.setdefault(item.spec.group, []).append(row)
    columns = ["method", "task", "seeds", "to do", "jobs", "why", "seconds", "data passes", "chains", "steps"]
    columns += ["joint error", "steps to .01"] * errors
    known = [row["seconds"] for row in rows if row["to_do"] and row["seconds"] is not None]
    cost = f", about {sum(known):,.0f} s of one core" if left and len(known) == len(left) else ""
    failed = sum(item.standing.failed for item in planned)
    done = f"{len(rows) - len(left) - failed} done before" + (f", {failed} failed before" if failed else "")
    note = f"{count(len(rows), 'run')}: {done}, {len(left)} to do{cost}"
    lines = [
        {**_line(members), "jobs": _listed(sizes.get(group, [])), "estimate": estimates[group][1]}
        for group, members in groups.items()
    ]
    return Result([table(lines, [*columns, "estimate"])], rows, notes=[note])


def _error(item: Planned) -> dict[str, float | None]:
    """Return the forecast of a run's joint error and of the steps to a low one, None where there is none.

    It is made in a child, because it executes the code of the sampler and the task.
    """
    from harness.runs.children import plugin_call

    try:
        ahead = plugin_call("plugins.running.error_forecast:of_run", item.spec)
    except BenchError:
        ahead = None
    return {"forecast_error": ahead and ahead.error, "forecast_steps": ahead and ahead.steps}


def _listed(sizes: Sequence[int]) -> str:
    """Return the number of runs of each job of a group: "2, 1, 1", or "16 of up to 5"."""
    return ", ".join(map(str, sizes)) if len(sizes) <= MOST_JOBS else f"{len(sizes)} of up to {max(sizes)}"


def _row(ended: Ended, item: Planned, seconds: float | None, job: int | None) -> dict[str, Any]:
    standing = item.standing
    return item.record() | {
        "to_do": job is not None, "job": job, "why": _why(ended, item), "passes": item.passes,
        "seconds": None if seconds is None or standing.cached else round(seconds, 3),
    }  # fmt: skip


def _why(ended: Ended, item: Planned) -> str:
    status = item.standing.status
    if item.standing.cached:
        return f"cached: {status}"
    if status == Status.NEW:
        return _difference(ended, item.spec)
    if item.standing.failed or status == Status.DAMAGED:
        return item.standing.reason_to_repeat
    resumable = item.standing.attempt is not None and any(True for _ in item.standing.attempt.checkpoints())
    return f"{status}: resumes from its checkpoint" if resumable else f"{status} without a checkpoint: starts again"


def _difference(ended: Ended, spec: RunSpec) -> str:
    """Return a text about how a run differs from the nearest finished run of the same method, task and seed."""
    like = (spec.method, spec.task.name, spec.seed)
    before = [run.spec for run in ended() if run.who == like and run.status in FINAL]
    differences: list[list[str]] = [_differing(spec.canonical(), record) for record in before]
    if not differences:
        return "never run"
    nearest = min(differences, key=len)
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


@dataclass(frozen=True)
class _Pace:
    """The seconds that a finished block of runs took: at its start, for each step, and to observe each draw.

    `passes` is the cost of a step in data passes.
    """

    block: int
    steps: int
    draws: float
    passes: float
    setup: float
    sampling: float
    observing: float

    @classmethod
    def of(cls, result: dict[str, Any]) -> _Pace | None:
        """Return the pace that a result.json records, or None if it lacks the numbers."""
        try:
            block, steps, taken = int(result["block_runs"]), int(result["steps_done"]), result["seconds"]
            setup, draws = block * (taken["setup"] + taken["checkpoint"]), int(result["draws_kept"])
            sampling, observing = block * taken["sampling"] / steps, block * taken["observing"] / max(draws, 1)
            pace = cls(block, steps, draws, result["passes_per_step"] + 0.0, setup, sampling, observing)
        except (KeyError, TypeError, ValueError, ArithmeticError):
            return None
        return (
            pace
            if min(block, steps) > 0 and math.isfinite(pace.setup + pace.sampling + pace.observing + pace.passes)
            else None
        )


class _Ended(NamedTuple):
    """An attempt that has a result; `who` is its method, task and seed."""

    who: tuple[Any, ...]
    spec: dict[str, Any]
    status: Any
    pace: _Pace | None


Ended = Callable[[], list[_Ended]]
"""The attempts in a results folder that have a result."""


def _ended(results: Path) -> list[_Ended]:
    """Return every attempt in a results folder that has a result.

    Unreadable attempts are skipped, because the result only serves to explain why a run is new and how long it takes.
    """
    ended = []
    ledger = Ledger(results)
    for attempt in (attempt for key in ledger.all_keys() for attempt in ledger.attempts(key)):
        spec, result = read_json(attempt.path / "spec.json"), read_json(attempt.path / "result.json")
        if spec is None or result is None:
            continue
        try:
            who = (spec["method"], spec["task"]["name"], spec["seed"])
            chains, params = spec["chains"] + 0, (spec["task"]["params"], spec["sampler"]["params"])
            hash(who)
        except (KeyError, TypeError):
            continue
        whole = chains > 0 and all(isinstance(part, dict) for part in params)
        ended.append(_Ended(who, spec, result.get("status"), _Pace.of(result) if whole else None))
    return ended


def _estimate(registry: Registry, ended: Ended, item: Planned, runs: int) -> tuple[float | None, str]:
    """Return the estimated seconds of each run of a group, and what the estimate is based on. None if it is not known.

    `runs` runs of the group are left; they advance together if the task allows it. The estimate is scaled from the
    nearest finished runs: nearest by compile mode and settings, then by steps and by chains of the block. The overhead
    of a step is constant, and its arithmetic grows with the chains, the parameters and the terms of a gradient. So a
    step takes (overhead + its work) / (overhead + the work of a step of the finished run) times as long.
    """
    spec, name = item.spec, item.spec.task.name
    ours, block = spec.canonical(), max(1, min(runs, item.max_block))
    by_distance: dict[tuple[float, ...], list[tuple[dict[str, Any], _Pace]]] = {}
    for _, record, _, pace in ended():
        alike = (record["method"], record["task"]["name"]) == (spec.method, name)
        modes = record.get("compile"), ours["compile"]
        if pace is None or not alike or record.get("device") != ours["device"]:
            continue
        if modes[0] != modes[1] and modes != ("plain", "compiled"):
            continue
        parts = [
            _differing(ours[part].get("params", {}), record[part].get("params", {})) for part in ("task", "sampler")
        ]
        lengths = (pace.steps / spec.steps, pace.block * record["chains"] / (block * spec.chains))
        distance = (
            float(modes[0] != modes[1]),
            *map(float, map(len, parts)),
            *(round(abs(math.log(length)), 3) for length in lengths),
        )
        by_distance.setdefault(distance, []).append((record, pace))
    if not by_distance:
        return None, "not known"
    nearest = min(by_distance)
    record, pace = by_distance[nearest][0]
    try:
        offer = registry.find("tasks", name)
        there, here = task_facts(offer, record["task"]["params"]), task_facts(offer, spec.task.params)
    except BenchError:
        return None, "not known"
    mode, draw = ("opaque", "opaque draw") if here.opaque else (record["compile"], "draw")
    faster = GPU if ours["device"] == "cuda" else 1.0
    chains = block * spec.chains, pace.block * record["chains"]
    sizes = chains[0] * here.dim, chains[1] * there.dim
    works = (
        chains[0] * _work(here.dim, item.passes / spec.steps * here.terms, dense=here.dense),
        chains[1] * _work(there.dim, pace.passes * there.terms, dense=there.dense),
    )
    kept = pace.draws * _kept_at_most(ours) / max(_kept_at_most(record), 1.0)
    seconds = statistics.median(p.setup for _, p in by_distance[nearest]) / block
    for part, times, kind, (work, before) in (
        ("sampling", spec.steps, mode, works),
        ("observing", kept, draw, sizes),
    ):
        each, overhead = statistics.median(getattr(p, part) for _, p in by_distance[nearest]), faster * OVERHEAD[kind]
        seconds += times * each * (overhead + work) / (overhead + before) / block
    if nearest[0]:
        return seconds, "at most, from steps done one by one"
    same = f"from {count(len(by_distance[nearest]), 'run')} of these settings"
    return seconds, "scaled from other settings" if any(nearest) else same


def _work(dim: int, terms: float, *, dense: bool) -> float:
    """Return the arithmetic of a chain's step, in parameters times terms of a gradient."""
    if dense:
        return dim * (UPDATE + PRODUCTS * terms) + ACTIVATIONS * terms * math.sqrt(dim)
    return dim * (UPDATE + terms)


def _kept_at_most(record: dict[str, Any]) -> float:
    """Return the number of draws of a run whose schedule keeps all steps after the burn-in that thinning leaves."""
    return float((record["steps"] - record["burn_in"]) / record["thin"])


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
        "joint error": _shown(first.get("forecast_error"), ".2g"),
        "steps to .01": _shown(first.get("forecast_steps"), ",.0f"),
    }


def _shown(forecast: float | None, form: str) -> str:
    """Return a forecast as text: "not known", or "never" for an infinite one."""
    return "not known" if forecast is None else "never" if math.isinf(forecast) else f"{forecast:{form}}"
