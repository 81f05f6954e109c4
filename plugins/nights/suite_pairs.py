"""`samplers = "all"` in a suite: for each task, all samplers and methods for which the command's study has settings.

`python -m plugins.nights.suite_pairs TASK` prints the samplers that can run on a task, which `nox -s tuned` tunes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from harness import BenchError, Registry, UsageError
from harness import registry as installed
from harness.runs import RunRequest, expand, find_pair, plugin_metadata, task_facts
from harness.runs.settings import unmet
from plugins.nights.suite import Suite, about
from plugins.tuning import studies


@dataclass(frozen=True)
class LeftOut:
    """A sampler or method that "all" does not include on some tasks, with the reason and the number of the command."""

    number: int
    method: str
    tasks: tuple[str, ...]
    reason: str


def complete(suite: Suite, registry: Registry, results: Path) -> tuple[Suite, list[LeftOut]]:
    """Return the suite with names instead of "all", and the samplers that are left out of its commands.

    One command becomes several if tasks have different samplers. Raise `UsageError` if the study does not exist, or has
    no settings for any task of the command.
    """
    numbers, entries, left_out = [], [], []
    for number, request in zip(suite.numbers, suite.entries, strict=True):
        names: dict[tuple[str, ...], list[str]] = {(*request.samplers,): [*request.tasks]}
        if not request.samplers:
            with about(suite, number):
                names, reasons = _pairs(registry, studies.load(registry, results, request.study), request)
            left_out += [LeftOut(number, method, (*tasks,), why) for (method, why), tasks in reasons.items()]
        for samplers, tasks in names.items():
            numbers.append(number)
            entries.append(replace(request, samplers=samplers, tasks=tuple(tasks)))
    return replace(suite, entries=tuple(entries), numbers=tuple(numbers)), left_out


def able(registry: Registry, task: str) -> list[str]:
    """Return the names of the samplers and methods that can run on a task."""
    return [name for name in _methods(registry) if not _unable(registry, name, task)]


def _pairs(
    registry: Registry, study: studies.Study, request: RunRequest
) -> tuple[dict[tuple[str, ...], list[str]], dict[tuple[str, str], list[str]]]:
    """Return the tasks of each tuple of samplers, and for each (method, reason) the tasks that it is left out of."""
    names: dict[tuple[str, ...], list[str]] = {}
    reasons: dict[tuple[str, str], list[str]] = {}
    for task in request.tasks:
        registry.find("tasks", task.partition("@")[0])
        chosen = []
        for method in _methods(registry):
            if why := _why_not(registry, study, replace(request, samplers=(method,), tasks=(task,), seeds=(0,))):
                reasons.setdefault((method, why), []).append(task)
            else:
                chosen.append(method)
        if chosen:
            names.setdefault(tuple(chosen), []).append(task)
    if not names:
        raise UsageError(f"study {study.name} has no settings for {', '.join(request.tasks)}; `bench tune` finds some")
    return names, reasons


def _methods(registry: Registry) -> list[str]:
    return list(dict.fromkeys(offer.name for kind in ("samplers", "methods") for offer in registry.offers(kind)))


def _why_not(registry: Registry, study: studies.Study, request: RunRequest) -> str:
    """Return why the study has no settings for the method of a request on its task, or "" if it has.

    A tuned pair is known to run, unless its full gradients cost more than the budget.
    """
    (method,), (task,) = request.samplers, request.tasks
    try:
        pair = find_pair(registry, method, task)
    except BenchError as error:
        return str(error)
    if (pair.method.name, pair.task.name, pair.protocol.name) in study.pairs:
        dear = plugin_metadata.sampler_facts(pair.sampler, {}).full_gradients_at_start
        return _too_dear(registry, study, request) if dear else ""
    return _unable(registry, method, task) or f"study {study.name} has no settings for it"


def _too_dear(registry: Registry, study: studies.Study, request: RunRequest) -> str:
    """Return why the budget does not suffice for a step, or ""."""
    try:
        expand(registry, request, study)
    except UsageError as error:
        return str(error)
    return ""


def _unable(registry: Registry, method: str, task: str) -> str:
    """Return why the method cannot run on the task, or what is wrong with either; "" if it can."""
    try:
        pair = find_pair(registry, method, task)
        return unmet(plugin_metadata.sampler_facts(pair.sampler, {}), task_facts(pair.task, {}))
    except BenchError as error:
        return str(error)


if __name__ == "__main__":
    print(",".join(able(installed(), sys.argv[1])))
