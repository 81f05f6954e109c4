"""`bench tune`: search the settings of samplers on tasks, at a declared cost, on seeds that no report shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import Bench, Result, RunError, UsageError, options
from harness.contracts import data
from harness.reports import Column, Table, number
from harness.results import MAX_CHAINS, ONE_SETTING, RunSpec, Status
from harness.runs import Planned, RunRequest, find_pair, parse_settings, plan, resolve, task_facts
from harness.system import count
from harness.tasks import TUNING_SEED
from plugins.running.groups import named, unable
from plugins.tuning import studies
from plugins.tuning.record import BETWEEN, FINALIST_SEEDS, add, record, sources, spent
from plugins.tuning.search import (
    AGAINST_TRUTH,
    LEAST_TRIALS,
    PER_DIMENSION,
    Search,
    Trial,
    check_installed,
    objective,
    trials_for,
)
from plugins.tuning.space import Space, dimensions, find_spaces

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
CYCLES = "schedule.cycles"
"""The setting that counts over a run: at another budget as many cycles can be good, or cycles that are as long."""
MOST_SEARCHES = 9999
"""The largest number of a search."""
Step = tuple[list[Trial], Sequence[int]]
"""Trials to run next, and on which seeds."""


class PairTuning:
    """The search of one pair, and the runs of its trials. `__init__` raises the errors that a run of it raises."""

    def __init__(
        self, bench: Bench, asked: RunRequest, metric: str | None, stated: Sequence[str], trials: int | None
    ) -> None:
        registry = bench.registry
        pair = find_pair(registry, asked.samplers[0], asked.tasks[0])
        self.bench, self.asked = bench, replace(asked, study=ONE_SETTING)
        self.key = (pair.method.name, pair.task.name, pair.protocol.name)
        self.spaces: dict[str, Space] = {}
        self.specs: dict[str, RunSpec] = {}
        refused = []
        for schedule, space in find_spaces(registry, pair, asked.given, asked.budget, stated).items():
            unset = {
                name: limits.rounded(limits.low) for name, limits in space.ranges.items() if limits.default is None
            }
            start = unset if space.scaled else {space.step: space.coarse[0]}
            try:
                (planned,) = self._runs({"schedule": schedule, **start}, [TUNING_SEED])
            except UsageError as error:  # a sampler may not take a schedule
                refused.append(error)
                continue
            self.spaces[schedule] = space
            self.specs[schedule] = planned.spec
            first = {**asked.given, "schedule": schedule, **start}
        if not self.specs:
            raise refused[0]
        settings = resolve(registry, replace(pair, defaults_only=True), first, asked.budget)
        self.given = studies.given_by(settings, asked.given)
        self.together, self.data = planned.max_block, planned.data
        self.objective = objective(pair.task.name, task_facts(pair.task, planned.spec.task.params).metrics, metric)
        self.asked = replace(self.asked, seeds=self.objective.seeds(asked.seeds or []))
        self.number = ((asked.seeds or [TUNING_SEED])[0] - TUNING_SEED) // BETWEEN
        self.final_seeds = self.objective.seeds(seed + self.number * BETWEEN for seed in FINALIST_SEEDS)
        self.trials = trials or trials_for(dimensions(self.spaces))
        self.searched = {
            "command": f"--budget {asked.budget} --chains {asked.chains} --seeds {len(asked.seeds or [])}"
            + f" --search {self.number}" * bool(self.number)
            + f" --objective {self.objective.metric} --trials {self.trials}"
            + "".join(f" --space {text}" for text in stated)
            + "".join(f" --set {name}={value}" for name, value in asked.given.items()),
            "asked_budget": asked.budget,
            "asked_trials": trials,
            **({"search": self.number} if self.number else {}),
            "dimensions": dimensions(self.spaces),
            "seeds": list(self.asked.seeds or []),
            "finalist_seeds": self.final_seeds,
            "chains": asked.chains,
            "objective": self.objective.metric,
            "given": dict(asked.given),
            "refused_schedules": [str(error) for error in refused],
        }
        self.others: list[Trial] = []
        self.carried: list[dict[str, Any]] = []
        self.search: Search | None = None
        self.problems: list[str] = []
        self.finished: list[bool] = []
        """Of each finished run, whether it has a value of the objective."""

    @property
    def name(self) -> str:
        """The pair as text, METHOD on TASK@PROTOCOL."""
        return "{} on {}@{}".format(*self.key)

    @property
    def tuned(self) -> bool:
        """Whether settings were chosen."""
        return self.search is not None and self.search.chosen is not None

    @property
    def truth_unknown(self) -> bool:
        """Whether runs finish, and none has a value of an error against the truth: then it is not known."""
        unknown = self.objective.metric in AGAINST_TRUTH and not any(self.finished)
        return unknown and len(self.finished) >= LEAST_TRIALS

    def record(self) -> dict[str, Any]:
        """Return the record of the pair in a study, without its cost."""
        assert self.search is not None
        assert self.search.chosen is not None
        spec = self.specs[self.search.chosen.values["schedule"]]
        return {**record(spec, self.search, self.others, self.objective, self.searched), "given": self.given}

    def carry(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Let the settings that were chosen for this pair at other budgets be finalists, where the code is the same."""
        for one in records:
            spec = self.specs.get(one["settings"]["schedule"])
            alike = spec and studies.key(one)[:3] == self.key and not studies.changed_code(one, sources(spec))
            alike = alike and studies.given_to(one) == self.given
            if not spec or not alike or one["budget"] == spec.budget or one["objective"] != self.objective.metric:
                continue
            forms = [dict(one["settings"])]
            if CYCLES in forms[0]:
                with suppress(UsageError):  # what this command sets may not go with the other budget
                    asked = self._asked(forms[0], [TUNING_SEED], one["budget"])
                    (other,) = plan.plan(self.bench.registry, asked, self.bench.ledger)
                    as_long = max(1, round(forms[0][CYCLES] * spec.steps / other.spec.steps))
                    forms.append({**forms[0], CYCLES: as_long})
            self.carried += [form for form in forms if form not in self.carried]

    def steps(self) -> Iterator[Step]:
        """Yield which trials to run next; their runs are judged before the next step is asked for."""
        unknown = [schedule for schedule, space in self.spaces.items() if not space.scaled]
        yield from self._find_scale(unknown)
        if self.spaces:
            yield from self._search()
        scalable = [schedule for schedule, space in self.spaces.items() if space.step]
        if self.search and self.search.best is None and scalable and not unknown:
            self.others += self.search.trials
            yield from self._find_scale(scalable)
            if self.spaces:
                yield from self._search()

    def _find_scale(self, schedules: Sequence[str]) -> Iterator[Step]:
        """Run the coarse pass of each schedule, and search around the best step size that it finds."""
        passes = {
            name: [Trial({"schedule": name, self.spaces[name].step: h}) for h in self.spaces[name].coarse]
            for name in schedules
        }
        trials = [trial for of_schedule in passes.values() for trial in of_schedule]
        if trials:
            self.others += trials
            yield trials, (self.asked.seeds or [])[:1]
        for name, of_schedule in passes.items():
            best = min(of_schedule, key=lambda trial: trial.objective)
            space = self.spaces.pop(name)
            if best.going:
                self.spaces[name] = space.around(best.values[space.step])

    def _search(self) -> Iterator[Step]:
        name = " ".join(self.key) + f" {self.number}" * bool(self.number)
        search = self.search = Search(name, self.spaces, self.trials, self.carried)
        seeds = self.asked.seeds or []
        stages = [seeds[k : k + self.together] for k in range(0, len(seeds), self.together)]
        while True:
            while trials := search.ask():
                for stage in stages:  # of seeds that advance together: stopping between them would save nothing
                    yield trials, stage
                    if stage is not stages[-1]:
                        search.stop_hopeless()
                search.tell()
            if not search.widen(search.best):
                yield [final for trial in search.finalists() if (final := trial.final)], self.final_seeds
                if not search.widen(search.chosen):
                    return

    def plan(self, trials: Sequence[Trial], seeds: Sequence[int]) -> list[Planned]:
        """Return the runs with these seeds of all trials that continue; a trial whose values are refused ends."""
        planned: list[Planned] = []
        for trial in trials:
            if not trial.going:
                continue
            try:
                runs = self._runs(trial.values, seeds)
            except UsageError as error:
                trial.refused = str(error)
                continue
            trial.keys += [run.spec.key for run in runs if run.spec.key not in trial.keys]
            planned += runs
        return planned

    def _runs(self, values: Mapping[str, Any], seeds: Sequence[int]) -> list[Planned]:
        return plan.plan(self.bench.registry, self._asked(values, seeds, self.asked.budget), self.bench.ledger)

    def _asked(self, values: Mapping[str, Any], seeds: Sequence[int], budget: str) -> RunRequest:
        return replace(self.asked, seeds=seeds, budget=budget, given={**self.asked.given, **values})

    def judge(self, trials: Sequence[Trial], instead: Mapping[str, str]) -> None:
        """Record the objective of the runs that were executed last; `instead` of planned ones others may have been.

        Raise `RunError` if one has no result yet: it says nothing about its settings.
        """
        for trial in trials:
            trial.keys = [instead.get(key, key) for key in trial.keys]
            for key in trial.keys[len(trial.seen) :]:
                standing = self.bench.ledger.standing(key)
                if not standing.cached and not standing.failed:
                    raise RunError(
                        f"{self.name}: run {key} of a trial is not finished ({standing.status}): "
                        "another process holds it, or its worker died; give the same command again when it is free"
                    )
                result = standing.attempt.result() if standing.attempt and standing.status == Status.DONE else None
                trial.seen.append(self.objective.loss(result["metrics"]) if result else math.inf)
                self.finished += [math.isfinite(trial.seen[-1])] if result else []
                trial.statuses.append(standing.status)
                if standing.failed:
                    self.problems.append(f"{standing.status}: {standing.reason}")


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
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=100, help="Runs per trial, each with its own seed.")] = 2,
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
    numbers = [TUNING_SEED + BETWEEN * search + k for k in range(seeds)]
    samplers, tasks = options.some(sampler, "--sampler"), bench.registry.tasks(options.some(task, "--task"))
    requests = [RunRequest(samplers, [name], numbers, chains, budget, given, device=kind) for name in tasks]
    groups = [
        [PairTuning(bench, one, objective_, space_ or [], trials) for one in plan.single(bench.registry, request)]
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
