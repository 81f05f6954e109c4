"""The rows of a night, from the planned runs of a suite and their results in the store."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness import UsageError
from harness.reports import Store
from harness.results import RunSpec
from harness.runs import Planned, RunRequest
from plugins.nights.regression.night import MetricValues, Night, NightRow

_METRICS = """
select run_key, metric, metric_version, unit, direction, target, value from run_metric order by run_key, metric
"""
Measured = dict[str, Any]
"""A row that `_METRICS` returns."""


@dataclass(frozen=True)
class SuiteCommand:
    """A run command of a suite, by its number from 1, with its runs.

    `skipped` has, by run key, the reason for runs that are left out because their data is missing. `of` is the name of
    the row on whose seeds these runs of a reference sampler are; they are not compared with other nights.
    """

    number: int
    request: RunRequest
    planned: Sequence[Planned]
    skipped: Mapping[str, str] = field(default_factory=dict)
    of: str = ""

    def row(self, spec: RunSpec) -> str:
        """Return the name of the row of a run: the requested settings, without anything that depends on code."""
        settings = {name: origin.value for name, origin in spec.origins.items() if origin.provenance == "user"}
        if "schedule" in {*self.request.given, *self.request.sweep}:
            settings["schedule"] = spec.schedule.name
        chosen = ", ".join(f"{name}={value}" for name, value in sorted(settings.items()))
        chains = "1 chain" if spec.chains == 1 else f"{spec.chains} chains"
        device = "" if spec.execution.device == "cpu" else f", {spec.execution.device}"
        label = f"{spec.method} on {spec.task.name}@{spec.protocol}, {spec.budget}, {chains}{device}"
        return f"{label} ({chosen})" if chosen else label


def observe(suite: str, entries: Sequence[SuiteCommand], store: Store) -> Night:
    """Return the night of the suite with digest `suite`, from a store that shows its runs, without left-out runs."""
    _, concluded = store.table("select run_key, status, seconds_sampling from result")
    results = {key: (status, seconds) for key, status, seconds in concluded}
    metrics: dict[str, list[Measured]] = {}
    for measured in store.rows(_METRICS):
        metrics.setdefault(measured["run_key"], []).append(measured)
    members: dict[str, dict[int, RunSpec]] = {}
    left_out = skipped_rows(entries)
    for entry in entries:
        for planned in () if entry.of else entry.planned:
            name = entry.row(planned.spec)
            if name not in left_out:
                known = members.setdefault(name, {}).setdefault(planned.spec.seed, planned.spec)
                if known.key != planned.spec.key:
                    raise UsageError(
                        f"seed {known.seed} of the row {name!r} has two runs, {known.key[:12]} and "
                        f"{planned.spec.key[:12]}; the suite must name the setting in which they differ"
                    )
    rows = {name: _row(specs, results, metrics) for name, specs in sorted(members.items())}
    return Night(suite, rows)


def skipped_rows(entries: Iterable[SuiteCommand]) -> set[str]:
    """Return the names of rows with left-out runs."""
    return {e.row(p.spec) for e in entries for p in e.planned if p.spec.key in e.skipped and not e.of}


def _row(
    specs: Mapping[int, RunSpec],
    results: Mapping[str, tuple[str, float | None]],
    metrics: Mapping[str, Sequence[Measured]],
) -> NightRow:
    concluded = {seed: results[spec.key] for seed, spec in sorted(specs.items()) if spec.key in results}
    by_metric: dict[str, list[tuple[int, Measured]]] = {}
    for seed in concluded:
        for measured in metrics.get(specs[seed].key, ()):
            by_metric.setdefault(measured["metric"], []).append((seed, measured))
    times = [seconds for _, seconds in concluded.values() if seconds is not None]
    return NightRow(
        task_version=next(iter(specs.values())).task_version,
        keys={seed: spec.key for seed, spec in sorted(specs.items())},
        statuses={seed: status for seed, (status, _) in concluded.items()},
        metrics={name: _metric(measurements) for name, measurements in by_metric.items()},
        seconds=statistics.median(times) if times else None,
    )


def _metric(measurements: Sequence[tuple[int, Measured]]) -> MetricValues:
    """Return a metric over the seeds, without values of an older version."""
    newest = max((measured for _, measured in measurements), key=lambda measured: int(measured["metric_version"]))
    version = newest["metric_version"]
    values = {s: m["value"] for s, m in measurements if m["value"] is not None and m["metric_version"] == version}
    return MetricValues(version, newest["unit"], newest["direction"], newest["target"], values)
