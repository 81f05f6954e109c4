"""The record of a run: its settings with their sources, its events, and its results."""

from __future__ import annotations

import json
from typing import Any

from harness import BenchError, Registry, UsageError
from harness.contracts import plugin_code
from harness.reporting import build, find_report
from harness.reports import Request, Store
from harness.results import PARTS
from plugins.inspection.shown.offers import loaded
from plugins.inspection.shown.task import truth

HEAD = (
    "run_key", "group_key", "method", "sampler", "schedule", "task", "task_version", "protocol", "budget",
    "steps", "burn_in", "thin", "chains", "seed", "moved", "dtype", "deterministic", "compile", "engine", "status",
    "reason", "step", "chain", "started", "finished", "passes", "passes_per_step", "seconds_sampling",
    "seconds_observing", "seconds_checkpoint", "seconds_setup", "steps_done", "draws_kept", "draws_stored",
    "attempt", "path",
)  # fmt: skip


def key(store: Store, prefix: str) -> str:
    """Return the run key that starts with `prefix`. `UsageError` if there is none or several."""
    runs = store.rows("select run_key, method, task, seed from run where starts_with(run_key, ?)", [prefix.lower()])
    if len(runs) == 1:
        return str(runs[0]["run_key"])
    if runs:
        several = ", ".join(f"{r['run_key'][:12]} ({r['method']} on {r['task']}, seed {r['seed']})" for r in runs[:5])
        raise UsageError(f"{prefix} matches {len(runs)} runs; give more digits: {several}")
    raise UsageError(f"there is no run {prefix} in {store.results}; `bench ls runs` lists them")


def run(store: Store, run_key: str, registry: Registry) -> dict[str, Any]:
    """Return the record of a run."""
    (row,) = store.rows("select * from run_status where run_key = ?", [run_key])
    attempt = row["attempt"]
    record = {"kind": "run", **{name: row[name] for name in HEAD}, "settings": _settings(row)}
    for facts in registry.facts("run"):
        record |= facts(row, registry)
    record["metrics"] = store.rows(
        "select name as metric, value, unit, direction, target, version, is_primary as primary from metric "
        "where attempt = ? order by is_primary desc, name",
        [attempt],
    )
    if any(metric["metric"] == "joint_error" for metric in record["metrics"]):
        record["sd_from_exact"] = _sd_from_exact(store, row, registry)
    record["truth"] = _truth(row, registry)
    record["attempts"] = store.rows(
        "select attempt, status, reason, started, finished from attempt where run_key = ? order by attempt", [run_key]
    )
    record["events"] = store.rows(
        "select attempt, time, event, detail from event semi join attempt on attempt.attempt = event.attempt "
        "and attempt.run_key = ? order by attempt, i",
        [run_key],
    )
    record["artifacts"] = store.rows(
        "select file, bytes, sha256 from artifact where attempt = ? order by file", [attempt]
    )
    record["environment"], record["packages"] = _environment(store, row["environment"])
    record["code"] = store.rows(
        'select distribution, version, git_commit as "commit", dirty, digest from plugin where attempt = ? '
        "order by distribution",
        [attempt],
    )
    return record


def _settings(row: dict[str, Any]) -> list[dict[str, Any]]:
    origins = json.loads(row["origins"])
    values = {f"{part}.{name}": value for part in PARTS for name, value in json.loads(row[f"{part}_params"]).items()}
    rows = []
    for name in sorted({*values, *origins}):
        origin = origins.get(name, {})
        value = values.get(name, origin.get("value"))
        rows.append(
            {
                "setting": name, "value": value, "provenance": origin.get("provenance", "not recorded"),
                "source": origin.get("source", ""),
            }
        )  # fmt: skip
    return rows


def _truth(row: dict[str, Any], registry: Registry) -> dict[str, Any] | None:
    """Return the truth of the run's task according to the installed task, or None if its version differs."""
    try:
        with plugin_code("the installed task"):
            task = loaded(registry.find("tasks", row["task"]))(**json.loads(row["task_params"]))
            return truth(task) if task.version == row["task_version"] else None
    except BenchError:
        return None


def _sd_from_exact(store: Store, row: dict[str, Any], registry: Registry) -> float | None:
    """Return how far the run's row is from exact draws in the report convergence; None if that has no such number."""
    request = Request(
        (row["task"],), (row["method"],), (row["protocol"],), (row["budget"],), (row["chains"],), registry=registry
    )
    try:
        records = build(find_report(registry, "convergence"), "convergence", store, request).records
    except BenchError:
        return None
    return next((r.get("sd_from_exact") for r in records if row["run_key"] in r["run_keys"]), None)


def _environment(store: Store, environment: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    rows = store.rows("select document from environment where environment = ?", [environment])
    document = json.loads(rows[0]["document"]) if rows else {}
    packages = document.pop("packages", {})
    document.pop("code", None)
    return document, packages
