"""The search of one pair: which trials to run next, their runs, and the record of what was chosen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from harness import Bench, RunError, UsageError
from harness.results import ONE_SETTING, RunSpec, Status
from harness.runs import Planned, RunRequest, find_pair, plan, resolve, task_facts
from plugins.tuning import studies
from plugins.tuning.record import record, sources
from plugins.tuning.search import AGAINST_TRUTH, LEAST_TRIALS, Search, Trial, objective, trials_for
from plugins.tuning.seeds import SearchSeeds
from plugins.tuning.space import Space, dimensions, find_spaces

CYCLES = "schedule.cycles"
"""The setting that counts over a run: at another budget as many cycles can be good, or cycles that are as long."""
Step = tuple[list[Trial], Sequence[int]]
"""Trials to run next, and on which seeds."""


class PairTuning:
    """The search of one pair, and the runs of its trials. `__init__` raises the errors that a run of it raises."""

    def __init__(
        self,
        bench: Bench,
        asked: RunRequest,
        seeds: SearchSeeds,
        metric: str | None = None,
        stated: Sequence[str] = (),
        trials: int | None = None,
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
                (planned,) = self._runs({"schedule": schedule, **start}, seeds.trials[:1])
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
        self.number = seeds.search
        self.trial_seeds, self.final_seeds = self.objective.seeds(seeds.trials), self.objective.seeds(seeds.finalists)
        self.trials = trials or trials_for(dimensions(self.spaces))
        self.searched = {
            "command": f"--budget {asked.budget} --chains {asked.chains} --seeds {seeds.per_trial}"
            + f" --search {self.number}" * bool(self.number)
            + f" --objective {self.objective.metric} --trials {self.trials}"
            + "".join(f" --space {text}" for text in stated)
            + "".join(f" --set {name}={value}" for name, value in asked.given.items()),
            "asked_budget": asked.budget,
            "asked_trials": trials,
            **({"search": self.number} if self.number else {}),
            "dimensions": dimensions(self.spaces),
            "seeds": self.trial_seeds,
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
                    asked = self._asked(forms[0], self.trial_seeds[:1], one["budget"])
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
            yield trials, self.trial_seeds[:1]
        for name, of_schedule in passes.items():
            best = min(of_schedule, key=lambda trial: trial.objective)
            space = self.spaces.pop(name)
            if best.going:
                self.spaces[name] = space.around(best.values[space.step])

    def _search(self) -> Iterator[Step]:
        name = " ".join(self.key) + f" {self.number}" * bool(self.number)
        search = self.search = Search(name, self.spaces, self.trials, self.carried)
        seeds = self.trial_seeds
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
