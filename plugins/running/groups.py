"""`--sampler all`, `--sampler density` and `--task GROUP`: what can run, and why other samplers cannot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import Bench, BenchError, Registry, UsageError
from harness.runs import RunRequest, expand, find_pair, plan, plugin_metadata, task_facts
from harness.runs.settings import unmet

if TYPE_CHECKING:
    from plugins.tuning.studies import Study

ALL, DENSITY = "all", "density"
"""All samplers and methods, and those that need nothing that a density does not provide."""
GROUPS = {ALL, DENSITY}


@dataclass(frozen=True)
class LeftOut:
    """A sampler or method that a group does not include on some tasks, with the reason."""

    method: str
    tasks: tuple[str, ...]
    reason: str


def refused(registry: Registry, request: RunRequest, study: Study | None) -> str:
    """Return why the sampler of a request cannot run on its task, or has no settings in the study; "" if it can.

    A tuned pair is known to run, unless its full gradients cost more than the budget.
    """
    (method,), (task,) = request.samplers, request.tasks
    try:
        pair = find_pair(registry, method, task)
        tuned = study is not None and study.pairs  # `one-setting` has none
        given = request.given or request.sweep
        if study and tuned and not given and (pair.method.name, pair.task.name, pair.protocol.name) not in tuned:
            return unable(registry, request) or f"study {study.name} has no settings for it"
        dear = plugin_metadata.sampler_facts(pair.sampler, {}).full_gradients_at_start
        if not tuned or dear or given:
            expand(registry, request, study)
    except BenchError as error:
        return str(error)
    return ""


def unable(registry: Registry, request: RunRequest, _: Study | None = None) -> str:
    """Return why the sampler of a request cannot run on its task at any settings; "" if it can."""
    (method,), (task,) = request.samplers, request.tasks
    try:
        pair = find_pair(registry, method, task)
        return unmet(plugin_metadata.sampler_facts(pair.sampler, {}), task_facts(pair.task, {}))
    except BenchError as error:
        return str(error)


Reason = Callable[[Registry, RunRequest, "Study | None"], str]


def named(bench: Bench, requests: Sequence[RunRequest], reason: Reason = refused) -> list[RunRequest]:
    """Return the requests with names instead of groups; say once what is left out, and why."""
    complete, left_out = [], []
    for request in requests:
        chosen, without = members(bench.registry, request, bench.results, reason)
        complete += chosen
        left_out += without
    check_owners(bench.registry, requests, [*(name for one in complete for name in one.samplers), *left_out])
    alike: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for one in dict.fromkeys(left_out):
        why = re.sub(rf"(?<![\w-]){one.method}(?![\w-])", "it", one.reason)
        alike.setdefault((one.tasks, why), []).append(one.method)
    for (tasks, why), methods in alike.items():
        bench.say(f"left out on {', '.join(tasks)}: {', '.join(methods)}: {why}")
    return complete


def check_owners(registry: Registry, requests: Iterable[RunRequest], samplers: Iterable[str | LeftOut]) -> None:
    """Raise `UsageError` for a setting SAMPLER:KEY of a sampler that is not among these."""
    names = {one.method if isinstance(one, LeftOut) else one for one in samplers}
    for setting in [key for request in requests for key in (*request.given, *request.sweep) if ":" in key]:
        owner = registry.method(setting.rpartition(":")[0])
        if owner not in map(registry.method, names):
            raise UsageError(f"{setting:.80}: {owner.name} is not among the samplers of this command")


def members(
    registry: Registry, request: RunRequest, results: Path, reason: Reason = refused
) -> tuple[list[RunRequest], list[LeftOut]]:
    """Return a request with names instead of groups, and the samplers that are left out on its tasks.

    One request becomes several if tasks have different samplers. Raise `UsageError` if nothing can run.
    """
    request = replace(request, tasks=(*registry.tasks(request.tasks),))
    if not GROUPS & {*request.samplers}:
        return [request], []
    study = registry.facts("study")[0](registry, results, request.study) if request.study else None
    asked = [name for name in request.samplers if name not in GROUPS]
    grouped = [name for name in _methods(registry) if ALL in request.samplers or _on_densities(registry, name)]
    every = replace(request, samplers=tuple(dict.fromkeys([*asked, *grouped])), seeds=(0,))
    names: dict[tuple[str, ...], list[str]] = {}
    reasons: dict[tuple[str, str], list[str]] = {}
    for task in request.tasks:
        registry.find("tasks", task.partition("@")[0])
        chosen = []
        for one in plan.single(registry, every):
            (method,) = one.samplers
            why = "" if method in asked else reason(registry, replace(one, tasks=(task,)), study)
            if why:
                reasons.setdefault((method, why), []).append(task)
            else:
                chosen.append(method)
        if chosen:
            names.setdefault(tuple(chosen), []).append(task)
    if not names and study:
        where = ", ".join(request.tasks)
        raise UsageError(f"study {study.name} has no settings for {where}; `bench tune` finds some")
    if not names:
        (method, why), tasks = next(iter(reasons.items()))
        raise UsageError(f"no sampler can run on {', '.join(request.tasks)}; {method} on {tasks[0]}: {why}")
    requests = [replace(request, samplers=samplers, tasks=tuple(tasks)) for samplers, tasks in names.items()]
    return requests, [LeftOut(method, (*tasks,), why) for (method, why), tasks in reasons.items()]


def _methods(registry: Registry) -> list[str]:
    return list(dict.fromkeys(offer.name for kind in ("samplers", "methods") for offer in registry.offers(kind)))


def _on_densities(registry: Registry, name: str) -> bool:
    from harness.tasks import DensityTask  # it imports NumPy, which most commands do without

    try:
        sampler = registry.sampler(registry.method(name))
        return {*plugin_metadata.sampler_facts(sampler, {}).needs} <= DensityTask.provides
    except BenchError:  # it is left out, with this reason
        return True
