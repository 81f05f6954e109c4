"""`bench tune`: search the settings of samplers on tasks, at a declared cost, on seeds that no report shows.

A study as data has the space that was searched, the rule, the cost, and the settings that were found.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import Bench, Result, UsageError, options
from harness.reports import Column, Table, number
from harness.results import ENGINE, MAX_CHAINS, PARTS, RunSpec, Status
from harness.runs import Planned, RunRequest, find_pair, parse_settings, plan, task_facts
from harness.system import alone, count, write_whole
from harness.tasks import TUNING_SEED
from plugins.tuning import studies
from plugins.tuning.search import TOGETHER, Objective, Search, check_installed, objective
from plugins.tuning.space import space

COLUMNS = (
    Column("method", "method"),
    Column("task", "task"),
    Column("value", "tuned", "right", number),
    Column("value_untuned", "before", "right", number),
    Column("tuned", "tuned settings"),
    Column("objective", "objective"),
    Column("trials", "trials", "right"),
    Column("passes", "data passes", "right", ".3g"),
)


class _PairTuning:
    """The search of one pair, and the runs of its trials. `__init__` raises the errors that a run of it raises."""

    def __init__(self, bench: Bench, asked: RunRequest, metric: str | None, stated: Sequence[str], trials: int) -> None:
        registry = bench.registry
        pair = find_pair(registry, asked.samplers[0], asked.tasks[0])
        limits = space(registry, pair, asked.given, asked.budget, stated)
        (first,) = plan.plan(registry, replace(asked, seeds=[TUNING_SEED]), bench.ledger)
        self.asked, self.bench = asked, bench
        self.spec, self.together = first.spec, first.max_block
        self.objective = objective(pair.task.name, task_facts(pair.task, first.spec.task.params).metrics, metric)
        self.pair: studies.PairNames = (pair.method.name, pair.task.name, pair.protocol.name)
        self.search = Search(" ".join(self.pair), limits, trials)
        self.problems: list[str] = []

    @property
    def name(self) -> str:
        """The pair as text, METHOD on TASK@PROTOCOL."""
        return "{} on {}@{}".format(*self.pair)

    def plan(self, seeds: Sequence[int]) -> list[Planned]:
        """Return the runs with these seeds of all trials that continue; a trial whose values are refused ends."""
        planned: list[Planned] = []
        for trial in self.search.round:
            if not trial.going:
                continue
            given = {**self.asked.given, **trial.values}
            try:
                runs = plan.plan(self.bench.registry, replace(self.asked, seeds=seeds, given=given), self.bench.ledger)
            except UsageError as error:
                trial.refused = str(error)
                continue
            trial.keys += [run.spec.key for run in runs]
            trial.passes += sum(run.passes * run.spec.chains for run in runs)
            planned += runs
        return planned

    def replace(self, keys: Mapping[str, str]) -> None:
        """Record the keys of the runs that were executed instead of planned ones."""
        for trial in self.search.round:
            trial.keys = [keys.get(key, key) for key in trial.keys]

    def judge(self) -> None:
        """Record the objective of the runs that were planned last."""
        for trial in self.search.round:
            for key in trial.keys[len(trial.seen) :]:
                standing = self.bench.ledger.standing(key)
                result = standing.attempt.result() if standing.attempt and standing.status == Status.DONE else None
                trial.seen.append(self.objective.loss(result["metrics"]) if result else math.inf)
                trial.statuses.append(standing.status)
                if standing.status not in (Status.DONE, Status.DIVERGED):
                    self.problems.append(f"{standing.status}: {standing.reason}")


def tune(
    bench: Bench,
    sampler: options.Samplers,
    task: options.Tasks,
    trials: Annotated[int, typer.Option("--trials", min=1, max=10_000, help="Settings to try for each pair.")] = 30,
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
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=100, help="Runs per trial, each with its own seed.")] = 2,
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

    Each trial is a run of each tuning seed at a fixed budget. These seeds are reserved: no report shows their runs, and
    networks are judged on a tenth of the training data that they were not trained on. Where the runs of several seeds
    do not advance together, a trial that is worse than the median after some of them ends there. The same command again
    resumes an interrupted search: trials are runs in the results folder like any other.

    Examples:
        bench tune --sampler sgld,psgld --task blr-heart --trials 30
        bench tune --sampler sghmc --task mixture5 --space sampler.friction=0.01:1
    """
    check_installed()
    if (how := bench.launching) and how.detach:
        raise UsageError("--detach: a search needs the results of its trials; leave --detach out")
    limit = options.duration(timeout, "--timeout")
    kind, places = bench.places(devices, workers)
    file = studies.path(bench.results, study)
    given = parse_settings(settings or [], "--set")
    asked = RunRequest(
        options.some(sampler, "--sampler"), options.some(task, "--task"), [], chains, budget, given, device=kind
    )
    numbers = [TUNING_SEED + k for k in range(seeds)]
    groups = [
        [_PairTuning(bench, replace(asked, samplers=[one], tasks=[name]), objective_, space_ or [], trials)
         for one in asked.samplers]
        for name in asked.tasks
    ]  # fmt: skip
    jobs = [job for group in groups for job in group]
    _print_changed_code(bench, file, jobs)
    bench.ledger.prepare()
    records: dict[studies.PairNames, dict[str, Any]] = {}
    for group in groups:
        size = group[0].together  # of seeds that advance together: stopping between them would save nothing
        stages = [numbers[k : k + size] for k in range(0, seeds, size)]
        for begun in range(0, trials, TOGETHER):
            for job in group:
                job.search.ask()
            for stage in stages:
                bench.say(f"{group[0].pair[1]}: trial {begun + 1} of {trials}, {count(len(stage), 'seed')}")
                planned = {run.spec.key: run for job in group for run in job.plan(stage)}
                done = bench.execute(
                    [*planned.values()], places, retry=retry, long_is_fine=yes, timeout=limit, draws="none"
                )
                for job in group:
                    job.replace({key: run.spec.key for key, run in done.instead.items()})
                    job.judge()
                    if stage is not stages[-1]:
                        job.search.stop_hopeless()
            for job in group:
                job.search.tell()
        records |= {job.pair: record(job.spec, job.search, job.objective, numbers) for job in group if job.search.best}
        if records:
            add(file, records)
    return _result(records, jobs, study, file)


def _print_changed_code(bench: Bench, file: Path, jobs: Sequence[_PairTuning]) -> None:
    """Print the pairs in the study whose code has changed: their trials are run again."""
    known = studies.read(file) if file.is_file() else {}
    for job in jobs:
        if changed := job.pair in known and studies.changed_code(known[job.pair], sources(job.spec)):
            bench.say(f"{job.name}: the code of the {changed} has changed since its study; the trials are run again")


def _result(records: Mapping[Any, Mapping[str, Any]], jobs: Sequence[_PairTuning], study: str, file: Path) -> Result:
    lost = [job for job in jobs if job.search.best is None]
    notes = [f"{job.name}: no trial succeeded: {_why(job)}" for job in lost]
    notes += [
        f"{job.name}: {len(job.problems)} runs failed, the first: {job.problems[0]}" for job in jobs if job.problems
    ]
    if records:
        notes.append(f"in {file}; use it by: bench run --settings {study}")
    rows = [{**one, "tuned": _words(one["settings"])} for one in records.values()]
    title = "Tuned settings; objective on the tuning seeds, which flatters the best of many trials"
    return Result([Table(title, COLUMNS, rows, keys=2)] if rows else [], list(records.values()), notes=notes,
                  exit_code=int(bool(lost)), changed=True)  # fmt: skip


def _why(job: _PairTuning) -> str:
    refused = [trial.refused for trial in job.search.trials if trial.refused]
    return (job.problems or refused or ["every run diverged or has no value of the objective"])[0]


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in settings.items()
    )


def record(spec: RunSpec, search: Search, objective: Objective, seeds: list[int]) -> dict[str, Any]:
    """Return the record of one pair. `spec` is a run of its first trial; `passes` counts all chains of all trials."""
    best, untuned = search.best, search.untuned
    assert best is not None
    return {
        "method": spec.method,
        "task": spec.task.name,
        "protocol": spec.protocol,
        "settings": {"schedule": spec.schedule.name, **best.values},
        "objective": objective.metric,
        "direction": objective.direction,
        "value": objective.of(best),
        "value_untuned": objective.of(untuned) if untuned and untuned.seen else None,
        "trials": len(search.trials),
        "pruned": sum(trial.stopped for trial in search.trials),
        "failed": sum(any(status != Status.DONE for status in trial.statuses) for trial in search.trials),
        "refused": sum(bool(trial.refused) for trial in search.trials),
        "passes": sum(trial.passes for trial in search.trials),
        "budget": spec.budget,
        "chains": spec.chains,
        "seeds": seeds,
        "space": {name: [limits.low, limits.high] for name, limits in search.space.items()},
        "rule": f"optuna {importlib.metadata.version('optuna')}, TPE, median pruner",
        "code": sources(spec),
        "engine": ENGINE,
        "run_keys": best.keys,
    }


def sources(spec: RunSpec) -> dict[str, str]:
    """Return the hashes of the code of a run's parts."""
    return {part: getattr(spec, part).source for part in PARTS}


def add(file: Path, tuned: Mapping[studies.PairNames, Mapping[str, Any]]) -> None:
    """Add records to a study's file, in place of earlier records of the same pairs."""
    file.parent.mkdir(exist_ok=True)
    with alone(file.parent):
        records = {**(studies.read(file) if file.is_file() else {}), **tuned}
        lines = ",\n".join(json.dumps(records[pair], allow_nan=False) for pair in sorted(records))
        write_whole(file, f'{{"format": {studies.FORMAT}, "tuned": [\n{lines}\n]}}\n'.encode())
