"""`bench rescore`: compute new or changed metrics of finished runs from their kept draws. Imports no torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import Bench, BenchError, DataError, Registry, Result, UsageError, options
from harness.reporting import table
from harness.reports import Store, suggestions
from harness.results import PARTS, Attempt, Ledger, RunSpec, Status
from harness.runs import call, task_facts, truths
from harness.system import SEAL, count
from harness.system import words as split
from plugins.upkeep.stored_spec import installed, offer, recorded_spec, truth_of

_DONE = f"""
select attempt, run_key, path, method, task, protocol, seed, task_params,
    (select list(metric.name || ' ' || metric.version) from metric where metric.attempt = result.attempt) as metrics,
    (select list(metric.name) from metric where metric.attempt = result.attempt and value is null) as without_value
from result
where status = '{Status.DONE}' and ($1 is null or list_contains($1, task))
    and ($2 is null or list_contains($2, method))
order by task, protocol, method, seed, attempt
"""  # noqa: S608 - a constant

Row = dict[str, Any]
COLUMNS = ["run", "method", "task", "seed", "metric", "version", "before", "after"]


@dataclass(frozen=True)
class Outdated:
    """A run to rescore: its row in the store, its attempt, its RunSpec with the current code, and its metrics."""

    row: dict[str, Any]
    attempt: Attempt
    spec: RunSpec
    metrics: tuple[str, ...]


@dataclass
class StaleRuns:
    """Runs to measure, and refused runs."""

    runs: list[Outdated] = field(default_factory=list)
    refused: list[tuple[dict[str, Any], str]] = field(default_factory=list)


def outdated(
    store: Store,
    registry: Registry,
    tasks: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    metrics: Collection[str] = (),
) -> StaleRuns:
    """Return the runs that lack a metric of their task or have another version of it; with `metrics`, all with those.

    Raise `UsageError` for a metric that none of their tasks has.
    """
    stale = StaleRuns()
    names: set[str] = set()
    for row in store.rows(_DONE, [tasks, methods]):
        attempt = Attempt(store.results / row["path"])
        try:
            spec = recorded_spec(attempt)
            offers = {kind: offer(registry, kind, getattr(spec, kind), attempt) for kind in PARTS}
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


def rescore(
    bench: Bench,
    task: Annotated[
        list[str] | None, typer.Option(help="Only these tasks, a,b,c.", autocompletion=options.TASKS)
    ] = None,
    sampler: options.OnlyMethods = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Compute these, a,b,c; default: new ones and those of an older version.")
    ] = None,
) -> Result:
    """Compute added or changed metrics of finished runs, and show what changed.

    It uses the kept draws. Runs with missing or weighted draws are refused. result.json does not change: the new
    metrics are stored next to it and replace its own in reports. Exit code 1 if a run was refused.

    Examples:
        bench rescore
        bench rescore --task mixture25 --metric modes_covered
    """
    store = bench.store()
    if store.obstacle:
        raise DataError(f"{store.obstacle}; its metrics could not be updated, so nothing was computed")
    stale = outdated(
        store, bench.registry, _words(store, "task", task), _words(store, "method", sampler), split(metric)
    )
    rows: list[Row] = []
    if stale.runs:
        Ledger(store.results).prepare()
        bench.say(f"computing metrics of {count(len(stale.runs), 'run')}")
        _measure(bench, stale, rows)
        store.refresh()
    refused = [{**_about(row), "metric": None, "refused": reason} for row, reason in stale.refused]
    shown = [
        {**row, "run": row["run_key"][:12], "version": _version(row), "before": _value(row["before"]),
         "after": _value(row["after"])}
        for row in rows
    ]  # fmt: skip
    return Result(
        [table(shown, COLUMNS)] if shown else [],
        [*rows, *refused],
        notes=_notes(rows, stale),
        exit_code=int(bool(refused)),
        changed=True,
    )


def _measure(bench: Bench, stale: StaleRuns, rows: list[Row]) -> None:
    """Compute metrics in a worker; its messages extend `rows` and `found.refused`."""
    from plugins.upkeep.rescoring import Asked

    job = bench.job([run.spec for run in stale.runs])
    by_path: dict[Path, Row] = {run.attempt.path: run.row for run in stale.runs}

    def listen(kind: str, content: dict[str, Any]) -> None:
        row = by_path[content["path"]]
        if kind == "refused":
            stale.refused.append((row, content["reason"]))
            return
        rows.extend({**_about(row), **change, "refused": None} for change in content["changes"])

    asked = [Asked(run.attempt.path, run.spec, run.metrics) for run in stale.runs]
    call("plugins.upkeep.rescoring:rescore", job, asked, listen=listen)


def _notes(rows: Sequence[Row], stale: StaleRuns) -> list[str]:
    notes = []
    if rows:
        notes = ["note: draws are kept as float32; metrics computed during the run used the unrounded draws"]
    elif not stale.refused:
        notes = ["nothing changed: all metrics are current"]
    reasons: dict[str, list[Row]] = {}
    for row, reason in stale.refused:
        reasons.setdefault(reason, []).append(row)
    for reason, refused in reasons.items():
        named = ", ".join(
            f"{row['run_key'][:12]} ({row['method']} on {row['task']}, seed {row['seed']})" for row in refused[:3]
        )
        more = f" and {len(refused) - 3} more" if len(refused) > 3 else ""
        notes.append(f"not measured: {named}{more}: {reason}")
    return notes


def _about(row: Mapping[str, Any]) -> Row:
    return {name: row[name] for name in ("run_key", "attempt", "method", "task", "protocol", "seed")}


def _version(row: Row) -> str:
    before = row["version_before"]
    return str(row["version"]) if before in (None, row["version"]) else f"{before} -> {row['version']}"


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.8g}"


def _words(store: Store, column: str, values: Sequence[str] | None) -> list[str] | None:
    """Return the names given for a column of the runs; raise `UsageError` with suggestions for a name without a run."""
    words = split(values) or None
    seen = {row[column] for row in store.rows(f"select distinct {column} from result")}  # noqa: S608 - a fixed name
    words = words and [Registry.spelled(word, seen) for word in words]
    for word in words or ():
        if word not in seen:
            raise UsageError(f"there is no finished run of {column} {word!r:.80} here{suggestions(word, seen)}")
    return words
