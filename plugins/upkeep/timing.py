"""`bench time`: the seconds that a step of each row takes, alone, on one thread, in turns with its table's others."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from harness import Bench, BenchError, Result, options
from harness.reporting import table
from harness.reports import Group, Request, score_fields
from harness.results import Attempt, Send, environment, timings
from harness.runs import Job, build, call, prepare
from harness.system import sealed, write_json
from harness.system import words as split
from plugins.upkeep.replay import ReplayRequest, request

TURNS = 5
"""Turns of each row, whose median counts."""
TURN_SECONDS = 0.2
"""Least duration of a turn, unless the run is shorter."""
BUSY = 0.5
"""Load of the machine, in processes, from which on a note says that it is not idle."""


def time_rows(
    bench: Bench,
    task: Annotated[
        list[str] | None, typer.Option(help="Only these tasks, a,b,c.", autocompletion=options.TASKS)
    ] = None,
    sampler: options.OnlyMethods = None,
) -> Result:
    """Measure the seconds a step of each row takes; leaderboards and figures compute their seconds from these.

    One run of each row makes some steps alone, on one thread, in turns with the other rows of its table; nothing of the
    results changes. Use an idle machine. Earlier timings of these rows are replaced.

    Examples:
        bench time
        bench time --task blr-heart --sampler sgld,sghmc
    """
    store = bench.store()
    notes = [f"note: {load:.0f} other processes are running; time on an idle machine"] if (load := _load()) else []
    records: list[dict[str, Any]] = []
    asked_for = Request(registry=bench.registry, tasks=tuple(split(task)), methods=tuple(split(sampler)))
    for field in score_fields(store, asked_for):
        asked: dict[str, ReplayRequest] = {}
        for group in field.groups:
            try:
                asked[group.key] = request(
                    Attempt(bench.results / [*group.done, *group.runs][0].path), bench.registry, anyway=False
                )
            except BenchError as error:
                notes.append(f"not timed: {field.labels[group.key]} on {group.task}: {error}")
        if asked:
            bench.say(f"{field.title}: timing {len(asked)} rows")
            records += _timed(bench, field.groups, field.labels, asked)
    return Result([table(records, ["task", "method", "seconds_a_step"])] if records else [], records, notes=notes)


def _load() -> float:
    load = os.getloadavg()[0]
    return load if load > BUSY else 0.0


def _timed(
    bench: Bench, groups: Sequence[Group], labels: dict[str, str], asked: dict[str, ReplayRequest]
) -> list[dict[str, Any]]:
    """Time the rows of a field in one worker, and store what it measures."""
    first = next(iter(asked.values()))
    job = bench.job([one.spec for one in asked.values()], first.data, first.device)
    seconds = dict(zip(asked, call("plugins.upkeep.timing:measure", job, listen=lambda *_: None), strict=True))
    machine = environment.collect(first.device, ())
    name = f"{machine['cpu']}, {machine['gpu'] or first.device}"
    folder = bench.results / timings.FOLDER
    folder.mkdir(exist_ok=True)
    for key, value in seconds.items():
        write_json(folder / f"{key}.json", sealed({"seconds_a_step": value, "machine": name}))
    return [
        {"task": group.task, "method": labels[group.key], "group": group.key, "seconds_a_step": seconds[group.key]}
        for group in groups
        if group.key in seconds
    ]


def measure(job: Job, send: Send) -> list[float]:
    """Return the median over turns of the seconds of sampling a step, for each run of a job."""
    prepare(job)
    specs = [replace(s, warm_start=None, warm_passes=None, warm_step_size=None, warm_source=None) for s in job.specs]
    loops = [build([spec], job) for spec in specs]
    paces: list[list[float]] = [[] for _ in specs]
    for _ in range(TURNS):
        for k, spec in enumerate(specs):
            loops[k] = build([spec], job) if loops[k].finished else loops[k]
            paces[k].append(_turn(loops[k]))
        send("turn", {})
    return [statistics.median(pace) for pace in paces]


def _turn(loop: Any) -> float:
    """Advance a loop for a while; return the seconds of sampling a step."""
    began, done = loop.clock.sampling, loop.done
    while not loop.finished and loop.clock.sampling - began < TURN_SECONDS:
        loop.advance_block()
    return float((loop.clock.sampling - began) / (loop.done - done))
