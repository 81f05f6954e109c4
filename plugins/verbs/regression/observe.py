"""From the planned runs of a suite and what the store has of them to the rows of a night."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.system.errors import UsageError
from plugins.verbs.regression.night import Metric, Night, Row

if TYPE_CHECKING:
    from harness.results.spec import RunSpec
    from harness.results.store import Store
    from harness.runs.plan import Planned, Request


@dataclass(frozen=True)
class Entry:
    """A run command of a suite, by its number from 1, with its runs; `skipped` gives the reason of those left out, by
    key: their data is not here.
    """

    number: int
    request: Request
    planned: Sequence[Planned]
    skipped: Mapping[str, str]

    def row(self, spec: RunSpec) -> str:
        """The name of the row that a run belongs to: what was asked for, and nothing that code decides."""
        settings = {name: origin.value for name, origin in spec.origins.items() if origin.provenance == "user"}
        if "schedule" in {*self.request.given, *self.request.sweep}:
            settings["schedule"] = spec.schedule.name
        chosen = ", ".join(f"{name}={value}" for name, value in sorted(settings.items()))
        chains = "1 chain" if spec.chains == 1 else f"{spec.chains} chains"
        device = "" if spec.device == "cpu" else f", {spec.device}"
        place = f"{spec.method} on {spec.task.name}@{spec.protocol}, {spec.budget}, {chains}{device}"
        return f"{place} ({chosen})" if chosen else place


def observe(suite: str, entries: Sequence[Entry], store: Store) -> Night:
    """The night that a suite of this digest had, from a store that shows its runs. Left-out runs are in no row."""
    results = {row["run_key"]: row for row in store.rows("select * from result")}
    metrics: dict[str, list[dict[str, Any]]] = {}
    for row in store.rows("select * from run_metric order by run_key, metric"):
        metrics.setdefault(row["run_key"], []).append(row)
    members: dict[str, dict[int, RunSpec]] = {}
    left_out = skipped_rows(entries)
    for entry in entries:
        for planned in entry.planned:
            name = entry.row(planned.spec)
            if name not in left_out:
                known = members.setdefault(name, {}).setdefault(planned.spec.seed, planned.spec)
                if known.key != planned.spec.key:
                    raise UsageError(
                        f"seed {known.seed} of the row {name!r} is two runs, {known.key[:12]} and "
                        f"{planned.spec.key[:12]}; a suite must say what sets them apart"
                    )
    rows = {name: _row(specs, results, metrics) for name, specs in sorted(members.items())}
    return Night(suite, rows)


def skipped_rows(entries: Iterable[Entry]) -> set[str]:
    """The names of the rows of which runs were left out."""
    return {e.row(p.spec) for e in entries for p in e.planned if p.spec.key in e.skipped}


def _row(
    specs: Mapping[int, RunSpec],
    results: Mapping[str, Mapping[str, Any]],
    metrics: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Row:
    concluded = {seed: results[spec.key] for seed, spec in sorted(specs.items()) if spec.key in results}
    measured = [(seed, metric) for seed, row in concluded.items() for metric in metrics.get(row["run_key"], [])]
    found = {metric["metric"]: _metric(metric["metric"], measured) for _, metric in measured}
    times = [row["seconds_sampling"] for row in concluded.values() if row["seconds_sampling"] is not None]
    return Row(
        task_version=next(iter(specs.values())).task_version,
        keys={seed: spec.key for seed, spec in sorted(specs.items())},
        statuses={seed: row["status"] for seed, row in concluded.items()},
        metrics=found,
        seconds=statistics.median(times) if times else None,
    )


def _metric(name: str, measured: Sequence[tuple[int, Mapping[str, Any]]]) -> Metric:
    """A metric over the seeds; values under an older version of it are left out."""
    own = [(seed, record) for seed, record in measured if record["metric"] == name]
    newest = max((record for _, record in own), key=lambda record: record["metric_version"])
    values = {
        seed: record["value"]
        for seed, record in own
        if record["value"] is not None and record["metric_version"] == newest["metric_version"]
    }
    return Metric(newest["metric_version"], newest["unit"], newest["direction"], newest["target"], values)
