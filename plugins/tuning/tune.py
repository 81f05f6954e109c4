"""`bench tune`: search the settings of samplers on tasks, at a declared cost, on seeds that no report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import Bench, Result, RunError, UsageError, options
from harness.contracts import data
from harness.reports import Column, Table, number
from harness.results import MAX_CHAINS
from harness.runs import RunRequest, parse_settings, plan
from harness.system import count
from plugins.running.groups import named, unable
from plugins.tuning import studies
from plugins.tuning.pair import PairTuning
from plugins.tuning.record import add, sources, spent
from plugins.tuning.search import (
    LEAST_TRIALS,
    PER_DIMENSION,
    check_installed,
)
from plugins.tuning.seeds import MOST_PER_TRIAL, SearchSeeds

COLUMNS = (
    Column("method", "method"),
    Column("task", "task"),
    Column("value", "tuned", "right", number),
    Column("upper", "worse end", "right", number),
    Column("value_untuned", "before", "right", number),
    Column("tuned", "tuned settings"),
    Column("objective", "objective"),
    Column("trials", "trials", "right"),
    Column("passes", "data passes", "right", ".3g"),
)
MOST_SEARCHES = 9999
"""The largest number of a search."""


def tune(
    bench: Bench,
    sampler: options.Samplers,
    task: options.Tasks,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials",
            min=1,
            max=10_000,
            help=f"Settings to try for each pair; default: {LEAST_TRIALS} and {PER_DIMENSION} for each dimension.",
        ),
    ] = None,
    study: Annotated[str, typer.Option("--study", help="Name under which --settings finds the result.")] = "tuned",
    budget: Annotated[
        str,
        typer.Option(
            "--budget",
            help="Budget of each run: smoke, quick, paper, steps=N, passes=N.",
            autocompletion=options.BUDGETS,
        ),
    ] = "quick",
    chains: Annotated[int, typer.Option("--chains", min=1, max=MAX_CHAINS, help="Chains per run.")] = 8,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=MOST_PER_TRIAL, help="Runs per trial, each with its own seed.")
    ] = 2,
    search: Annotated[
        int,
        typer.Option(
            "--search",
            metavar="N",
            min=0,
            max=MOST_SEARCHES,
            help="Number of the search. Each draws values of its own on seeds of its own; "
            "comparing two shows how much of a result is luck.",
        ),
    ] = 0,
    objective_: Annotated[
        str | None,
        typer.Option("--objective", help="Metric; default: nll on held-out training data, or joint_error."),
    ] = None,
    space_: Annotated[
        list[str] | None,
        typer.Option(
            "--space", metavar="NAME=LOW:HIGH", help="Search this range instead of the one the class declares."
        ),
    ] = None,
    settings: options.Set = None,
    workers: options.Workers = None,
    devices: options.Devices = "cpu",
    timeout: options.Timeout = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed runs again.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Run even if it takes over a day.")] = False,
) -> Result:
    """Search for the best settings of samplers on tasks; `bench run --settings tuned` uses them.

    Each trial is a run of each tuning seed at a fixed budget. The best trials run again on other seeds, which decide.
    These seeds are reserved: no report shows their runs, and predictions are judged on data that the runs do not use,
    unless the objective is an error against the truth. The schedule is searched too, unless the sampler under it is a
    method of its own. Settings of papers and authors have no part in a search. Where the runs of several seeds do not
    advance together, a trial that is worse than the median after some of them ends there. The same command again
    resumes an interrupted search: trials are runs in the results folder like any other.

    Examples:
        bench tune --sampler sgld,psgld --task blr-heart
        bench tune --sampler sghmc --task mixture5 --space sampler.friction=0.01:1
    """
    check_installed()
    if (how := bench.launching) and how.detach:
        raise UsageError("--detach: a search needs the results of its trials; leave --detach out")
    limit = options.duration(timeout, "--timeout")
    kind, places = bench.places(devices, workers)
    file = studies.path(bench.results, study)
    given = parse_settings(settings or [], "--set")
    of_search = SearchSeeds(search, seeds)
    samplers, tasks = options.some(sampler, "--sampler"), bench.registry.tasks(options.some(task, "--task"))
    requests = [RunRequest(samplers, [name], of_search.trials, chains, budget, given, device=kind) for name in tasks]
    groups = [
        [
            PairTuning(bench, one, of_search, objective_, space_ or [], trials)
            for one in plan.single(bench.registry, request)
        ]
        for request in named(bench, requests, unable)
    ]
    jobs = [job for group in groups for job in group]
    if bench.launching is None:  # otherwise the data are on the nodes
        for file_ in dict.fromkeys(file_ for job in jobs for file_ in job.data):
            data.locate(file_)
    known = studies.read(file) if file.is_file() else {}
    with_shipped = studies.shipped(bench.registry, study)[0] | known
    _refuse_other_searches(with_shipped, jobs, study)
    _print_changed_code(bench, known, jobs)
    for job in () if space_ else jobs:  # a stated interval is searched alone
        job.carry(with_shipped.values())
    bench.ledger.prepare()
    records: dict[studies.StudyKey, dict[str, Any]] = {}
    for group in groups:
        progress = {job: job.steps() for job in group}
        while steps := {job: step for job in group if not job.truth_unknown and (step := next(progress[job], None))}:
            planned = {run.spec.key: run for job, step in steps.items() for run in job.plan(*step)}
            bench.say(f"{group[0].key[1]}: {count(sum(len(some) for some, _ in steps.values()), 'trial')}")
            done = bench.execute(
                [*planned.values()], places, retry=retry, long_is_fine=yes, timeout=limit, draws="none"
            )
            if done.failures and not done.statuses:
                raise RunError(f"{group[0].key[1]}: no trial could be run: {done.failures[0][1]}")
            instead = {key: run.spec.key for key, run in done.instead.items()}
            for job, (some, _) in steps.items():
                job.judge(some, instead)
        new = [job.record() for job in group if job.tuned]
        if new:
            records |= add(file, {studies.key(one): one for one in new}, spent(bench.store()))
    return _result(records, jobs, study, file)


def _refuse_other_searches(
    known: Mapping[studies.StudyKey, Mapping[str, Any]], jobs: Sequence[PairTuning], study: str
) -> None:
    """Raise `UsageError` where a study has a search of another number: the two cannot be compared."""
    for job, one in ((job, one) for job in jobs for key, one in known.items() if key[:3] == job.key):
        if (number := one.get("search", 0)) != job.number:
            raise UsageError(
                f"study {study} has search {number} of {job.name}, which ran on other seeds than search {job.number}; "
                "choose another --study"
            )


def _print_changed_code(
    bench: Bench, known: Mapping[studies.StudyKey, Mapping[str, Any]], jobs: Sequence[PairTuning]
) -> None:
    """Print the pairs in the study whose code has changed: their trials are run again."""
    for job, one in ((job, one) for job in jobs for key, one in known.items() if key[:3] == job.key):
        spec = job.specs.get(one["settings"]["schedule"])
        if spec and (changed := studies.changed_code(one, sources(spec))):
            bench.say(f"{job.name}: the code of the {changed} has changed since its study; the trials are run again")


def _result(records: Mapping[Any, Mapping[str, Any]], jobs: Sequence[PairTuning], study: str, file: Path) -> Result:
    lost = [job for job in jobs if not job.tuned]
    notes = [f"{job.name}: no trial succeeded: {_why(job)}" for job in lost]
    notes += [
        f"{job.name}: {len(job.problems)} runs failed, the first: {job.problems[0]}" for job in jobs if job.problems
    ]
    notes += [
        f"{one['method']} on {one['task']}: still at an edge of its interval: {name} ({side})"
        for one in records.values()
        for name, side in one["at_edge"].items()
    ]
    if records:
        same = ", with the same --set" * any(one["given"] for one in records.values())
        notes.append(f"in {file}; use it by: bench run --settings {study}{same}")
    rows = [{**one, "tuned": _words(one["settings"])} for one in records.values()]
    title = "Tuned settings; objective on the seeds of the finalists, before: on those of the search"
    return Result([Table(title, COLUMNS, rows, keys=2)] if rows else [], list(records.values()), notes=notes,
                  exit_code=int(bool(lost)), changed=True)  # fmt: skip


def _why(job: PairTuning) -> str:
    if job.truth_unknown:
        return f"none of {len(job.finished)} finished runs has a value of {job.objective.metric}"
    trials = [*job.others, *(job.search.trials if job.search else ())]
    refused = [trial.refused for trial in trials if trial.refused]
    return (job.problems or refused or ["every run diverged or has no value of the objective"])[0]


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in settings.items()
    )
