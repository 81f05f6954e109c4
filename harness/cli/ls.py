"""`bench ls`: what there is. Imports no torch and no plugin's own code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from harness.cli import context, results
from harness.cli.options import Json
from harness.contracts.hookspecs import Method
from harness.contracts.parameters import near
from harness.contracts.registry import Offer
from harness.results.records import STATUSES
from harness.system.errors import UsageError

KINDS = ("samplers", "schedules", "methods", "tasks", "reports", "suites", "runs")
COLUMNS = {
    "samplers": ["name", "kind", "sampler", "schedule", "distribution", "summary"],
    "methods": ["name", "sampler", "schedule", "distribution", "summary"],
    "suites": ["name", "commands", "distribution", "summary"],
    "runs": ["run", "method", "task", "protocol", "budget", "chains", "seed", "status", "metric", "value", "reason"],
}
RUNS = """
select left(run_key, 12) as run, run_key, group_key, method, sampler, schedule, task, task_version, protocol, budget,
    chains, seed, steps, status, reason, run_status.step as diverged_at, metric.name as metric, metric.value as value,
    passes, seconds_sampling, seconds_observing, strftime(started, '%Y-%m-%dT%H:%M:%S') as started,
    strftime(finished, '%Y-%m-%dT%H:%M:%S') as finished, run_status.attempt as attempt
from run_status left join metric on metric.attempt = run_status.attempt and metric.is_primary
where ($1 is null or list_contains($1, task))
    and ($2 is null or list_contains($2, method))
    and ($3 is null or list_contains($3, status))
order by task, protocol, method, budget, chains, seed, run_key
"""

Filter = Annotated[str | None, typer.Option(help="Of runs: only these, a,b,c.")]


def ls(
    what: Annotated[str, typer.Argument(help=", ".join(KINDS))],
    task: Filter = None,
    method: Filter = None,
    status: Filter = None,
    as_json: Json = False,
) -> None:
    """List samplers (with methods), schedules, methods, tasks, reports, suites, or the runs done so far."""
    if what not in KINDS:
        raise UsageError(f"unknown listing {what!r:.80}{near(what, KINDS)}")
    if what == "runs":
        rows = _runs(task, method, status)
    elif task or method or status:
        raise UsageError(f"--task, --method and --status choose among runs; `bench ls {what}` lists all {what}")
    else:
        rows = _suites() if what == "suites" else _offers(what)
    if as_json:
        context.print_json(rows)
    else:
        context.print_rows(rows, COLUMNS.get(what, ["name", "distribution", "summary"]))


def _offers(kind: str) -> list[dict[str, Any]]:
    registry = context.plugins()
    rows = [_offer(offer) for offer in registry.offers(kind)]
    if kind == "samplers":
        rows += [_offer(offer) for offer in registry.offers("methods")]
    return rows


def _suites() -> list[dict[str, Any]]:
    from plugins.verbs.suite import read

    rows: list[dict[str, Any]] = []
    for plugin, path in context.plugins().suites():
        row: dict[str, Any] = {
            "name": path.stem,
            "kind": "suite",
            "plugin": plugin.name,
            "distribution": plugin.distribution,
        }
        try:
            found = read(path)
            row |= {"commands": len(found.entries), "summary": found.summary}
        except UsageError as error:
            row |= {"commands": None, "summary": str(error)}
        rows.append({**row, "version": plugin.version, "path": str(path)})
    return rows


def _offer(offer: Offer) -> dict[str, Any]:
    row: dict[str, Any] = {"name": offer.name, "kind": offer.kind[:-1]}
    if isinstance(offer.info, Method):
        row |= {"sampler": offer.info.sampler, "schedule": offer.info.schedule}
    elif offer.kind == "samplers":
        row |= {"sampler": offer.name, "schedule": None}
    return row | {
        "summary": offer.info.summary, "plugin": offer.plugin, "distribution": offer.distribution,
        "version": offer.version,
    }  # fmt: skip


def _runs(task: str | None, method: str | None, status: str | None) -> list[dict[str, Any]]:
    store = results.opened()
    registry = context.plugins()
    seen = store.rows("select distinct task, method from run")
    tasks = [row["task"] for row in seen] + [offer.name for offer in registry.offers("tasks")]
    methods = [row["method"] for row in seen] + [row["name"] for row in _offers("samplers")]
    chosen = [_words(task, tasks, "task"), _words(method, methods, "method"), _words(status, STATUSES, "status")]
    return store.rows(RUNS, chosen)


def _words(text: str | None, known: Iterable[str], kind: str) -> list[str] | None:
    if text is None:
        return None
    words = [word.strip() for word in text.split(",") if word.strip()]
    names = set(known)
    for word in words:
        if word not in names:
            raise UsageError(f"unknown {kind} {word!r:.80}{near(word, names)}")
    return words
