"""`bench check`: check samplers, schedules and tasks against the laws."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Annotated, Any

import typer

from harness import Bench, Method, PluginError, Registry, Result, UsageError, options
from harness.contracts import Offer, of_part, schema
from harness.reporting import table
from harness.reports import suggestions
from harness.results import environment, laws
from harness.runs import parse_settings, undeclared
from harness.runs.children import without_main
from harness.system import count
from harness.system import words as split
from harness.system.import_path import passed_on, restore
from plugins.inspection.shown.offers import loaded

KINDS = ("samplers", "schedules", "tasks", "methods")
NAMES_PER_PROCESS = 4
"""Names checked by one process: another process takes seconds to import torch."""

LONG = ("noisy-scaling", "whole-law", "time-homogeneity")
"""The last laws of a sampler; each may take a minute, is a separate job, and is not run for rows."""

EXAMPLES = {"float": 0.1, "int": 2}
COLUMNS = ["name", "law", "outcome", "message", "seconds"]


def check(
    bench: Bench,
    name: Annotated[
        list[str] | None,
        typer.Argument(
            help="Samplers, schedules, methods (for both of theirs), tasks (TASK@PROTOCOL for its settings) or groups.",
            autocompletion=options.completes(*KINDS),
        ),
    ] = None,
    settings: options.Set = None,
    rows: Annotated[
        bool,
        typer.Option("--rows", help="Samplers at the settings of the results' rows, by the laws that take seconds."),
    ] = False,
) -> Result:
    """Check samplers, schedules and tasks, at their defaults or --set, against the laws; exit code 1 if one fails.

    With --rows, the outcome is stored in the results folder: a row that fails has no rank. Rows whose code has not
    changed since are not checked again.

    Examples:
        bench check sgld
        bench check --rows
        bench check sghmc --set sampler.friction=0.1
    """
    if rows:
        return _check_rows(bench, split(name or ()), settings)
    if not name:
        raise UsageError("name what to check, or give --rows for the rows of the results")
    undeclared.watch()
    given = parse_settings(settings or [], "--set")
    # Report wrong names and settings before anything is checked.
    registry = bench.registry
    words = registry.tasks(split(name))
    kinds = {word: {kind[:-1] for kind, _ in _instances(registry, word, given)} for word in words}
    known = set[str]().union(*kinds.values())
    owners = {key: registry.spelled(key.rpartition(":")[0], words) for key in given}
    if alien := [key for key, owner in owners.items() if owner not in {"", *words}]:
        raise UsageError(f"--set {alien[0]}: {owners[alien[0]]} is not checked here")
    idle = sorted(key for key in given if key.rpartition(":")[2].partition(".")[0] not in known)
    if idle:
        raise UsageError(
            f"--set {idle[0]}: nothing of that kind is checked; settings begin with {' or '.join(sorted(known))} here"
        )
    bench.say(f"checking {', '.join(words)}")
    by_name = _shared(bench, words, [word for word in words if "sampler" in kinds[word]], given)
    judged = [row for word in words for row in by_name[word]]
    return Result([table(judged, COLUMNS)], judged, exit_code=int(any(row["outcome"] == "failed" for row in judged)))


def _check_rows(bench: Bench, samplers: Sequence[str], settings: Sequence[str] | None) -> Result:
    """Make and store the outcomes of the laws at the settings of all rows, or those of some samplers or methods."""
    from plugins.checking import outcomes

    if settings:
        raise UsageError("--set and --rows exclude each other: the rows have their settings")
    names = [bench.registry.method(one).name for one in samplers]
    ran = bench.store().rows("from run join (select distinct run_key from result) using (run_key)")
    asked = outcomes.held_in(row for row in ran if not names or {row["method"], row["sampler"]} & {*names})
    bench.say(f"checking {count(len(asked), 'setting')} of samplers")
    judged = outcomes.make(bench.results, bench.registry, bench.plugins, asked)
    shown = [
        {
            "sampler": one.sampler,
            "settings": one.settings,
            "source": one.source[:8],
            "laws": str(judged.get(key, laws.NOT_RUN)),
        }
        for key, one in sorted(asked.items(), key=lambda pair: (pair[1].sampler, pair[1].settings))
    ]
    wrong = any(outcome.verdict == laws.Verdict.FAILED for outcome in judged.values())
    return Result([table(shown, ["sampler", "settings", "laws"])] if shown else [], shown, exit_code=int(wrong))


def _settings_of(given: Mapping[str, str], word: str) -> dict[str, str]:
    """Return the settings of a checked name: NAME:KEY precedes KEY, and is for no other name."""
    parts = [(*key.rpartition(":")[::2], value) for key, value in given.items()]
    common = {key: value for owner, key, value in parts if not owner}
    return common | {key: value for owner, key, value in parts if owner and Registry.spelled(owner, [word]) == word}


def _shared(bench: Bench, words: list[str], samplers: list[str], given: dict[str, str]) -> dict[str, list[Row]]:
    """Return the rows of each name, computed by one process per core: first the short laws, for many names at once."""
    groups = 1 if len(words) < NAMES_PER_PROCESS else min(environment.cores(), len(words))
    jobs: list[Job] = [(words[k::groups], None) for k in range(groups)]
    jobs += [([word], law) for word in samplers for law in LONG]
    rows: dict[str, list[Row]] = {word: [] for word in words}
    if len(jobs) == 1:
        return _rows(bench, jobs[0], given)
    context = multiprocessing.get_context("spawn")
    with (
        passed_on(),
        without_main(),
        ProcessPoolExecutor(min(environment.cores(), len(jobs)), context, restore) as pool,
    ):
        try:
            for part in pool.map(partial(_rows, bench, given=given), jobs):
                for word, new in part.items():
                    rows[word] = sorted(rows[word] + new, key=lambda row: KINDS.index(f"{row['kind']}s"))
        except BrokenProcessPool as error:
            raise PluginError(
                f"while {', '.join(words)} were checked, a worker process died: it was killed, or compiled code crashed"
            ) from error
    return rows


Row = dict[str, Any]
Job = tuple[list[str], str | None]
"""Names, and the long law to check; if that is None, all other laws are checked."""
Made = list[tuple[str, Any]]
"""The kind and the object of each part that a name stands for."""


def _rows(bench: Bench, job: Job, given: dict[str, str]) -> dict[str, list[Row]]:
    """Return the rows of a job, with all samplers checked together: they share the new process of the law restore."""
    import torch

    from plugins.checking.suite import LAWS, check_samplers, check_schedule, check_task

    undeclared.watch()
    torch.set_num_threads(1)
    words, long = job
    laws = [law.name for law in LAWS if (law.name == long if long else law.name not in LONG)]
    named = {word: _instances(bench.registry, word, given) for word in words}
    samplers = [instance for parts in named.values() for kind, instance in parts if kind == "samplers"]
    held = iter(check_samplers(samplers, laws) if samplers else [])
    rows: dict[str, list[Row]] = {}
    for word, parts in named.items():
        rows[word] = []
        for kind, instance in parts:
            if kind == "samplers":
                results = next(held)
            elif long:
                continue
            else:
                results = check_schedule(instance) if kind == "schedules" else check_task(instance)
            rows[word] += [{"name": word, "kind": kind[:-1]} | vars(result) for result in results]
    return rows


def _instances(registry: Registry, name: str, given: Mapping[str, Any]) -> Made:
    """Return the sampler, schedule or task of that name with the given settings, or a method's sampler and schedule.

    Raise `UsageError` if there is none.

    TASK@PROTOCOL is a task with the settings of a protocol.
    """
    name, at, protocol = name.partition("@")
    given = _settings_of(given, name)
    known = {kind: registry.names(kind) for kind in KINDS}
    every = {one for names in known.values() for one in names}
    bare = registry.spelled(name.rpartition(":")[2], every)
    for kind in KINDS:
        if bare in known[kind]:
            offer = registry.find(kind, name)
            if at and kind != "tasks":
                raise UsageError(f"{name}@{protocol:.80}: only a task has protocols, and {name} is no task")
            if not isinstance(offer.info, Method):
                settings = _protocol(offer, protocol) if at else {}
                return [(kind, _at_defaults(offer, {**settings, **of_part(given, kind[:-1])}))]
            parts = [("samplers", offer.info.sampler), ("schedules", offer.info.schedule)]
            return [
                (
                    kind,
                    _at_defaults(
                        registry.find(kind, part, prefer=offer.distribution),
                        of_part({**offer.info.settings, **given}, kind[:-1]),
                    ),
                )
                for kind, part in parts
                if part
            ]
    raise registry.unknown("unknown sampler, schedule, method or task", name, every)


def _protocol(offer: Offer, name: str) -> dict[str, Any]:
    """Return what a protocol sets of a task."""
    known = {protocol.name: protocol for protocol in loaded(offer).protocols}
    if name not in known:
        raise UsageError(f"task {offer.name} has no protocol {name!r:.80}{suggestions(name, known)}")
    return dict(known[name].task_settings())


def _at_defaults(offer: Offer, settings: dict[str, Any]) -> Any:
    """Return the object at its defaults and these settings; numbers of a schedule without a default get example values.

    Raise `UsageError` for an unknown setting, or if another setting has no default.
    """
    cls = loaded(offer)
    fields = [field.name for field in schema(cls)]
    unknown = next((name for name in settings if name not in fields), None)
    if unknown is not None:
        raise UsageError(f"{offer.name} has no setting {unknown!r:.80}{suggestions(unknown, fields)}")
    required = [field for field in schema(cls) if field.required and field.name not in settings]
    if offer.kind == "schedules":
        settings = {**{field.name: EXAMPLES[field.type] for field in required if field.type in EXAMPLES}, **settings}
        required = [field for field in required if field.name not in settings]
    if required:
        raise UsageError(
            f"{offer.name} has no default for {', '.join(field.name for field in required)}; give values by "
            f"--set {offer.kind[:-1]}.{required[0].name}=VALUE"
        )
    return cls(**settings)
