"""`bench show`: show everything about one run, task, sampler, method, schedule or launcher."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from harness import Bench, Registry, Result, UsageError, options
from harness.contracts import plugin_code
from harness.reports import suggestions
from plugins.inspection.shown import offers, run, task
from plugins.inspection.shown.sections import sections

KINDS = ("task", "sampler", "method", "schedule", "launcher", "run")
KEY = re.compile(r"[0-9a-fA-F]{6,64}")


def show(
    bench: Bench,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[KIND] NAME",
            help="A name, or the beginning of a run key (6 digits at least); KIND tells equal names apart.",
            autocompletion=options.completes("tasks", "samplers", "methods", "schedules", "launchers"),
        ),
    ],
) -> Result:
    """Show a task, sampler, method, schedule, launcher or run: settings with their source, truth, metrics, environment.

    Examples:
        bench show sgld
        bench show task mixture25
        bench show RUN  # the beginning of a run key, as `bench ls runs` prints it
    """
    if len(words) > 2:
        raise UsageError("`bench show` takes a name, or a kind and a name")
    if len(words) == 2 and words[0] not in {*KINDS, *(f"{kind}s" for kind in KINDS)}:
        raise UsageError(f"unknown kind {words[0]!r}{suggestions(words[0], KINDS)}")
    registry = bench.registry
    kind = words[0].removesuffix("s") if len(words) == 2 else _kind(words[0], registry)
    record = _record(bench, kind, words[-1])
    return Result(sections(record), [record])


def _kind(name: str, registry: Registry) -> str:
    known = {kind: registry.names(f"{kind}s") for kind in KINDS[:-1]}
    every = {one for names in known.values() for one in names}
    bare = registry.spelled(name.rpartition(":")[2], every)
    kinds = [kind for kind, names in known.items() if bare in names]
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise UsageError(f"{name!r} is a {' and a '.join(kinds)}; say which: bench show {kinds[0]} {name}")
    if KEY.fullmatch(name):
        return "run"
    raise registry.unknown("there is no task, sampler, method, schedule, launcher or run", name, every)


def _record(bench: Bench, kind: str, name: str) -> dict[str, Any]:
    registry = bench.registry
    if kind == "run":
        if not KEY.fullmatch(name):
            raise UsageError(f"{name!r} is not a run key: give 6 to 64 hexadecimal digits")
        store = bench.store()
        return run.run(store, run.key(store, name), registry)
    offer = registry.find(f"{kind}s", name)
    with plugin_code(f"{kind} {name} ({offer.distribution})"):
        if kind == "task":
            return task.task(offer)
        if kind == "method":
            return offers.method(offer, registry)
        if kind == "launcher":
            return offers.launcher(offer)
        return offers.sampler(offer, registry) if kind == "sampler" else offers.schedule(offer)
