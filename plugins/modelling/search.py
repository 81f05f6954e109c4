"""The quick search: each sampler's step size, by one tuning run of one chain for each value, at the length of the runs.

Six decades, then four values around the best of them. The best is confirmed by a run of as many chains as the runs
have: if it diverges there, the next best is. There are no finalists: rows with these settings are labelled "quick
search", and rank with none of `bench tune`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness import Bench, UsageError
from harness.contracts import load
from harness.results import ENGINE, RunSpec, Status
from harness.results import spec as run_specs
from harness.runs import RunRequest, find_pair, local, plugin_metadata, task_facts
from harness.tasks import TUNING_SEED
from plugins.tuning import studies
from plugins.tuning.record import add, sources, spent
from plugins.tuning.search import objective

STUDY = "quick-search"
DECADES = tuple(10.0**k for k in range(-4, 2))
"""Learning rates on the mean loss, h N; of a sampler that divides the gradient by its size, a tenth of them."""
AROUND = (0.2, 0.45, 2.2, 5.0)
"""Factors of the best of them."""
TRIALS = len(DECADES) + len(AROUND)
"""The runs of a search."""
Finished = tuple[RunSpec, Mapping[str, Any] | None]
"""A run and its result; None if it diverged."""
Places = Sequence[local.Place]
"""Where runs are executed."""


@dataclass
class Candidate:
    """A sampler of the command: the request for its runs, and the setting to search; "" if it is given.

    scale   the least learning rate to try as a step size: N h of a sampler that multiplies the gradient by h
    losses  the objective by the value of the setting
    """

    request: RunRequest
    setting: str
    scale: float
    losses: dict[float, float] = field(default_factory=dict)
    spec: RunSpec | None = None

    @classmethod
    def of(cls, bench: Bench, request: RunRequest) -> Candidate:
        """Find what to search for a request of one sampler and one task."""
        pair = find_pair(bench.registry, request.samplers[0], request.tasks[0])
        given = {"schedule": pair.method.schedule or "constant", **request.given}
        offer = bench.registry.find("schedules", str(given["schedule"]), prefer=pair.sampler.distribution)
        steps = [f"schedule.{f.name}" for f in plugin_metadata.fields(offer) if f.required and f.relative]
        terms = task_facts(pair.task, plugin_metadata.resolve(pair.task, {})).terms
        scale = 1 / terms if load(pair.sampler.target).step_unit else 0.1
        return cls(replace(request, given=given), next((name for name in steps if name not in given), ""), scale)

    @property
    def best(self) -> float | None:
        """The value with the least objective; None if every run failed."""
        losses = {value: loss for value, loss in self.losses.items() if loss < math.inf}
        return min(losses, key=lambda value: losses[value], default=None)

    def tuning(self, value: float, budget: str, chains: int = 1, **given: Any) -> RunRequest:
        """Return the request for a run on a tuning seed."""
        settings = {**self.request.given, **({self.setting: value} if self.setting else {}), **given}
        return replace(self.request, seeds=[TUNING_SEED], chains=chains, budget=budget, given=settings)

    def next_values(self) -> list[float]:
        """Return the values to try first, and then those around the best of them."""
        if not self.setting:
            return []
        values = [rate * self.scale for rate in DECADES]
        if self.losses:
            values = [self.best * factor for factor in AROUND] if self.best else []
        return [float(f"{value:.3g}") for value in values]


def run_tuning(bench: Bench, requests: Sequence[RunRequest], places: Places) -> list[Finished]:
    """Execute requests of one run each, and return their results.

    Raise `UsageError` with the reason if a run ended otherwise than done or diverged, as all of the command would.
    """
    planned = [item for request in requests for item in bench.planned([request])]
    unique = {item.spec.key: item for item in planned}
    outcome = bench.execute([*unique.values()], places, retry=True, long_is_fine=True, draws="none")
    finished: list[Finished] = []
    for item in (outcome.instead.get(item.spec.key, item) for item in planned):
        standing = bench.ledger.standing(item.spec.key)
        if not standing.cached:
            raise UsageError(f"{item.spec.method} cannot run on this model: {standing.reason or standing.status}")
        done = standing.attempt if standing.status == Status.DONE else None
        finished.append((item.spec, done.result() if done else None))
    return finished


def confirm(bench: Bench, candidates: Sequence[Candidate], budget: str, places: Places) -> None:
    """Run the best values with all chains of a run, and give up those at which one of them diverges."""
    unsure = [(one, one.best) for one in candidates if one.setting]
    while asked := [(one, value) for one, value in unsure if value is not None]:
        requests = [one.tuning(value, budget, one.request.chains or 1) for one, value in asked]
        finished = run_tuning(bench, requests, places)
        lost = [pair for pair, (_, result) in zip(asked, finished, strict=True) if result is None]
        for one, value in lost:
            one.losses[value] = math.inf
        unsure = [(one, one.best) for one, _ in lost]


def search(bench: Bench, candidates: Sequence[Candidate], budget: str, places: Places) -> None:
    """Run the trials of all samplers, and record the best settings as the study `STUDY` of the results folder."""
    metrics = task_facts(bench.registry.find("tasks", candidates[0].request.tasks[0]), {}).metrics
    aim = objective("", metrics, None)
    for _ in ("decades", "around the best"):
        if not (asked := [(one, value) for one in candidates for value in one.next_values()]):
            break
        finished = run_tuning(bench, [one.tuning(value, budget) for one, value in asked], places)
        for (one, value), (ran, result) in zip(asked, finished, strict=True):
            one.spec, one.losses[value] = ran, aim.loss(result["metrics"]) if result else math.inf
    confirm(bench, candidates, budget, places)
    about = {
        "objective": aim.metric, "direction": aim.direction, "asked_budget": budget, "chains": 1, "trials": TRIALS,
        "seeds": [TUNING_SEED], "finalist_seeds": [], "search_version": run_specs.QUICK_SEARCH,
    }  # fmt: skip
    records = {}
    for one in candidates:
        if one.spec is None or one.best is None:
            continue
        spec = one.spec
        schedule = one.request.given["schedule"]
        whose, command = {"code": sources(spec), "engine": ENGINE}, f"compare-on {budget}"
        interval = {schedule: {one.setting: [min(one.losses), max(one.losses)]}}
        record = {
            **about, "method": spec.method, "task": spec.task.name, "protocol": spec.protocol, "budget": spec.budget,
            "settings": {"schedule": schedule, one.setting: one.best}, "schedules": [schedule], "code": sources(spec),
            "value": aim.shown(one.losses[one.best]),
            "searches": [{**about, **whose, "command": command, "budget": spec.budget, "space": interval}],
        }  # fmt: skip
        records[studies.key(record)] = record
    if records:
        add(studies.path(bench.results, STUDY), records, spent(bench.store()))
