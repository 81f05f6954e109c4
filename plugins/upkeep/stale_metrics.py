"""Finds finished runs whose metrics differ from the current metrics of their task. Imports no torch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness import BenchError, Registry, UsageError
from harness.reports import Store, suggestions
from harness.results import Attempt, RunSpec, Status, rescored
from harness.runs import task_facts, truths
from harness.system import SEAL
from plugins.upkeep.stored_spec import installed, offer, recorded_spec

KINDS = ("sampler", "schedule", "task")
_DONE = f"""
select attempt, run_key, path, method, task, protocol, seed, task_params,
    (select list(metric.name || ' ' || metric.version) from metric where metric.attempt = result.attempt) as metrics,
    (select list(metric.name) from metric where metric.attempt = result.attempt and value is null) as without_value
from result
where status = '{Status.DONE}' and ($1 is null or list_contains($1, task))
    and ($2 is null or list_contains($2, method))
order by task, protocol, method, seed, attempt
"""  # noqa: S608 - a constant


@dataclass(frozen=True)
class Outdated:
    """A run to rescore: its row in the store, its attempt, its RunSpec with the current code, and its metrics."""

    row: dict[str, Any]
    attempt: Attempt
    spec: RunSpec
    metrics: tuple[str, ...]


@dataclass
class Found:
    """Runs to measure, and refused runs."""

    runs: list[Outdated] = field(default_factory=list)
    refused: list[tuple[dict[str, Any], str]] = field(default_factory=list)


def outdated(
    store: Store,
    registry: Registry,
    tasks: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    metrics: Collection[str] = (),
) -> Found:
    """Return the runs that lack a metric of their task or have another version of it; with `metrics`, all with those.

    Raise `UsageError` for a metric that none of their tasks has.
    """
    stale = Found()
    names: set[str] = set()
    for row in store.rows(_DONE, [tasks, methods]):
        attempt = Attempt(store.results / row["path"])
        try:
            spec = recorded_spec(attempt)
            offers = {kind: offer(registry, kind, getattr(spec, kind), attempt) for kind in KINDS}
            current = task_facts(offers["task"], spec.task.params).metrics
            spec = replace(spec, task=installed(offers["task"], spec.task))
            truth = (truths.read(store.results, spec) or {}).get(SEAL)
            before = truth_of(attempt) if truth else None
        except BenchError as error:
            stale.refused.append((row, str(error)))
            continue
        known = {metric.name: f"{metric.name} {metric.version}" for metric in current}
        names |= known.keys()
        missing = [name for name, version in known.items() if version not in (row["metrics"] or [])]
        if before != truth:  # the truth was computed later, or again
            missing += [name for name in known if before or name in (row["without_value"] or [])]
        wanted = tuple(name for name in known if name in metrics) if metrics else tuple(missing)
        if not wanted:
            continue
        parts = {kind: installed(offers[kind], getattr(spec, kind)) for kind in ("sampler", "schedule")}
        spec = replace(spec, sampler=parts["sampler"], schedule=parts["schedule"])
        stale.runs.append(Outdated(row, attempt, spec, wanted))
    for name in metrics:
        if names and name not in names:
            raise UsageError(f"unknown metric {name!r}{suggestions(name, names)}")
    return stale


def truth_of(attempt: Attempt) -> str | None:
    """Return the checksum of the stored truth with which the metrics of a run were computed, if any."""
    newer, _ = rescored.read(attempt.path)
    record = (newer or {}).get("code") or attempt.result()
    return record.get("truth") if isinstance(record, dict) else None
