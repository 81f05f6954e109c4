"""`bench ls`: list plugins, suites and runs. Imports no torch, and a plugin's own code only for launchers' settings."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

import typer

from harness import Bench, BenchError, Method, Registry, Result, UsageError, options
from harness.contracts import Offer, check_known, plugin_code
from harness.reporting import table
from harness.results import Status
from harness.runs import plugin_metadata
from harness.system import words

KINDS = ("samplers", "schedules", "methods", "tasks", "reports", "launchers", "suites", "runs")
STATUSES = tuple(status for status in Status if status not in (Status.NEW, Status.DAMAGED))
"""The statuses of attempts."""
OFFERED = ["name", "summary", "distribution"]
COLUMNS = {
    "samplers": ["name", "summary", "schedule", "sampler", "kind", "distribution"],
    "methods": ["name", "summary", "sampler", "schedule", "distribution"],
    "tasks": ["group", "name", "summary", "distribution"],
    "reports": ["name", "summary", "filled_by", "distribution"],
    "suites": ["name", "summary", "commands", "distribution"],
    "runs": ["run", "method", "task", "seed", "status", "value", "metric", "reason", "chains", "budget", "protocol"],
}
SETTINGS = "Settings of launchers: --set launcher.SETTING=VALUE"
RUNS = """
select left(run_key, 12) as run, run_key, group_key, method, sampler, schedule, task, task_version, protocol, budget,
    chains, seed, steps, status, reason, run_status.step as diverged_at, metric.name as metric, metric.value as value,
    passes, seconds_sampling, seconds_observing, strftime(started, '%Y-%m-%dT%H:%M:%S') as started,
    strftime(finished, '%Y-%m-%dT%H:%M:%S') as finished, run_status.attempt as attempt
from run_status left join (
    from metric where name = 'joint_error' or is_primary
    qualify row_number() over (partition by attempt order by name = 'joint_error' desc) = 1
) as metric on metric.attempt = run_status.attempt
where ($1 is null or list_contains($1, task))
    and ($2 is null or list_contains($2, method))
    and ($3 is null or list_contains($3, status))
order by task, protocol, method, budget, chains, seed, run_key
"""


def ls(
    bench: Bench,
    what: Annotated[str, typer.Argument(help=", ".join(KINDS), autocompletion=options.completes(words=KINDS))],
    task: Annotated[
        str | None, typer.Option(help="Only runs on these tasks, a,b,c.", autocompletion=options.TASKS)
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Only runs of these samplers or methods, a,b,c.", autocompletion=options.METHODS)
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(help="Only runs with these statuses, a,b,c.", autocompletion=options.completes(words=STATUSES)),
    ] = None,
) -> Result:
    """List samplers (with methods), schedules, methods, tasks, reports, launchers, suites, or the runs done so far.

    Examples:
        bench ls samplers
        bench ls tasks --json
        bench ls runs --task mixture25 --status diverged
    """
    (what,) = check_known("listing", [what], KINDS)
    if what == "runs":
        rows = _runs(bench, task, method, status)
    elif task or method or status:
        raise UsageError(f"--task, --method and --status choose among runs; `bench ls {what}` lists all {what}")
    else:
        rows = _suites(bench.registry) if what == "suites" else _offers(bench.registry, what)
    settings = _settings(bench.registry) if what == "launchers" else []
    if settings:
        rows = [row | {"settings": [one for one in settings if one["launcher"] == row["name"]]} for row in rows]
    shown = table(rows, COLUMNS.get(what, OFFERED))
    columns = [replace(column, format=".3g") if column.key == "value" else column for column in shown.columns]
    asked = " that match the filters" if task or method or status else ""
    none = f"no {what}{asked} in {bench.results}; `bench run --help` says how to make some"
    more = [table(settings, ["launcher", "setting", "default", "meaning"], title=SETTINGS)] if settings else []
    return Result([replace(shown, columns=columns), *more], rows, notes=[] if rows or what != "runs" else [none])


def _offers(registry: Registry, kind: str) -> list[dict[str, Any]]:
    rows = [_offer(offer) for offer in registry.offers(kind)]
    if kind == "samplers":
        rows += [_offer(offer) for offer in registry.offers("methods")]
    return sorted(rows, key=lambda row: (row.get("group") == "", row.get("group")))


def _settings(registry: Registry) -> list[dict[str, Any]]:
    """Return a row for each setting of each launcher; a launcher that cannot be loaded has none."""
    rows = []
    for offer in registry.offers("launchers"):
        with suppress(BenchError):
            rows += [
                {"launcher": offer.name, "setting": f.name, "default": str(f.default), "meaning": f.meaning}
                for f in plugin_metadata.fields(offer)
            ]
    return rows


def _suites(registry: Registry) -> list[dict[str, Any]]:
    """Return a row for each suite, with the facts of the plugin that runs suites."""
    rows: list[dict[str, Any]] = []
    for plugin, path in registry.suites():
        row: dict[str, Any] = {"name": path.stem, "kind": "suite", "plugin": plugin.name}
        row |= {"distribution": plugin.distribution, "commands": None, "summary": ""}
        try:
            with plugin_code(f"suite {path}"):
                for facts in registry.facts("suite"):
                    row |= facts(path)
        except BenchError as error:
            row["summary"] = str(error)
        rows.append({**row, "version": plugin.version, "path": str(path)})
    return rows


def _offer(offer: Offer) -> dict[str, Any]:
    row: dict[str, Any] = {"name": offer.name, "kind": offer.kind[:-1]}
    if isinstance(offer.info, Method):
        row |= {"sampler": offer.info.sampler, "schedule": offer.info.schedule}
    elif offer.kind == "samplers":
        row |= {"sampler": offer.name, "schedule": None}
    elif offer.kind == "tasks":
        row["group"] = offer.info.group
    elif offer.kind == "reports":
        row["filled_by"] = offer.info.fill or None
    return row | {
        "summary": offer.info.summary, "plugin": offer.plugin, "distribution": offer.distribution,
        "version": offer.version,
    }  # fmt: skip


def _runs(bench: Bench, task: str | None, method: str | None, status: str | None) -> list[dict[str, Any]]:
    store, registry = bench.store(), bench.registry
    seen = store.rows("select distinct task, method from run")
    tasks = [row["task"] for row in seen] + [offer.name for offer in registry.offers("tasks")]
    methods = [row["method"] for row in seen] + [row["name"] for row in _offers(registry, "samplers")]
    chosen = []
    for kind, text, known in (("task", task, tasks), ("method", method, methods), ("status", status, STATUSES)):
        error = () if kind == "status" else (registry.unknown,)
        named = check_known(kind, words(text), {*known}, *error)
        chosen.append(None if text is None else named)
    return store.rows(RUNS, chosen)
