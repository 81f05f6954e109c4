"""The rows of a night, from the planned runs of a suite and their results in the store."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import UsageError
from harness.reports import Store
from harness.results import RunSpec, Status
from harness.runs import Planned, RunRequest
from plugins.nights.regression.night import MetricValues, Night, NightRow

_METRICS = """
select run_key, metric, metric_version, unit, direction, target, value, is_primary
from run_metric order by run_key, metric
"""
_ERRORS = "select run_key, len(x) as points, y from result join curve_points using (attempt) where name = ?"
JOINT = "joint_error"
"""The joint error, and the curve of errors that it is computed from."""
Errors = NDArray[np.float64]
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
        asked = {*self.request.given, *self.request.sweep}  # also one that is the default, whose provenance is another
        settings = {
            name: origin.value for name, origin in spec.origins.items() if origin.provenance == "user" or name in asked
        }
        if "schedule" in asked:
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
    errors = {
        run["run_key"]: np.array(run["y"], dtype=float).reshape(-1, run["points"])
        for run in store.rows(_ERRORS, [JOINT])
    }
    rows = {name: _row(specs, results, metrics, errors) for name, specs in sorted(members(entries).items())}
    return Night(suite, rows)


def members(entries: Sequence[SuiteCommand]) -> dict[str, dict[int, RunSpec]]:
    """Return the runs of each row by seed, without left-out rows.

    Raise `UsageError` where two runs of a seed have one name.
    """
    of_rows: dict[str, dict[int, RunSpec]] = {}
    left_out = skipped_rows(entries)
    for entry in entries:
        for planned in () if entry.of else entry.planned:
            name = entry.row(planned.spec)
            if name not in left_out:
                known = of_rows.setdefault(name, {}).setdefault(planned.spec.seed, planned.spec)
                if known.key != planned.spec.key:
                    raise UsageError(
                        f"seed {known.seed} of the row {name!r} has two runs, {known.key[:12]} and "
                        f"{planned.spec.key[:12]}; the suite must name the setting in which they differ"
                    )
    return of_rows


def skipped_rows(entries: Iterable[SuiteCommand]) -> set[str]:
    """Return the names of rows with left-out runs."""
    return {e.row(p.spec) for e in entries for p in e.planned if p.spec.key in e.skipped and not e.of}


def _row(
    specs: Mapping[int, RunSpec],
    results: Mapping[str, tuple[str, float | None]],
    metrics: Mapping[str, Sequence[Measured]],
    errors: Mapping[str, Errors],
) -> NightRow:
    concluded = {seed: results[spec.key] for seed, spec in sorted(specs.items()) if spec.key in results}
    by_metric: dict[str, list[tuple[int, Measured]]] = {}
    for seed in concluded:
        for measured in metrics.get(specs[seed].key, ()):
            by_metric.setdefault(measured["metric"], []).append((seed, measured))
    described = {name: _metric(measurements) for name, measurements in by_metric.items()}
    if joint := described.pop(JOINT, None):
        done = [seed for seed, (status, _) in concluded.items() if status == Status.DONE]
        of_seed = {seed: errors[specs[seed].key] for seed in done if specs[seed].key in errors}
        if len(of_seed) == len(done):
            described[JOINT] = replace(joint, values=_pseudo_values(of_seed), statistic="joint", of_seed=joint.values)
    primary = (name for name, values in by_metric.items() if any(measured["is_primary"] for _, measured in values))
    times = [seconds for _, seconds in concluded.values() if seconds is not None]
    return NightRow(
        task_version=next(iter(specs.values())).task_version,
        keys={seed: spec.key for seed, spec in sorted(specs.items())},
        statuses={seed: status for seed, (status, _) in concluded.items()},
        metrics=described,
        seconds=statistics.median(times) if times else None,
        main=JOINT if JOINT in described else next(primary, ""),
    )


def _pseudo_values(errors: Mapping[int, Errors]) -> dict[int, float]:
    """Return exp(pseudo-values) of log b2 by seed, from the errors (C, n) of each seed's chains.

    b2 = max over f of the mean over chains of all seeds of the squared error, as on the leaderboard. The pseudo-value
    of seed s is log b2 + (S - 1) (mean of log b2(-j) over j - log b2(-s)), where b2(-s) leaves out the chains of s.
    Their mean is log b2, and its variance that of the jackknife. Seeds with an error that is not finite have none.
    """
    points = min((values.shape[1] for values in errors.values()), default=0)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = {seed: values[:, :points] ** 2 for seed, values in errors.items()}
    finite = {seed: values for seed, values in squares.items() if values.size and np.isfinite(values).all()}
    if not finite:
        return {}
    sums = np.stack([values.sum(axis=0) for values in finite.values()])
    chains = np.array([len(values) for values in finite.values()])
    whole = float((sums.sum(axis=0) / chains.sum()).max())
    if len(finite) < 2 or not whole > 0:
        return dict.fromkeys(finite, whole)
    without = ((sums.sum(axis=0) - sums) / (chains.sum() - chains)[:, None]).max(axis=1)
    logs = np.log(np.maximum(without, np.finfo(float).tiny))
    pseudo = math.log(whole) + (len(logs) - 1) * (logs.mean() - logs)
    return {seed: float(value) for seed, value in zip(finite, np.exp(np.clip(pseudo, -700, 700)), strict=True)}


def _metric(measurements: Sequence[tuple[int, Measured]]) -> MetricValues:
    """Return a metric over the seeds, without values of an older version."""
    newest = max((measured for _, measured in measurements), key=lambda measured: int(measured["metric_version"]))
    version = newest["metric_version"]
    values = {s: m["value"] for s, m in measurements if m["value"] is not None and m["metric_version"] == version}
    return MetricValues(version, newest["unit"], newest["direction"], newest["target"], values)
