"""Runs as the store has them, gathered into groups: replicates that differ in nothing but the seed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.report import Request

if TYPE_CHECKING:
    from harness.store import Store

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
"""x (n,) and y (C, n), or (1, n) where the curve is of the run as a whole."""


@dataclass(frozen=True)
class Value:
    """A metric of one run; `value` is None where it does not exist."""

    value: float | None
    version: int
    unit: str
    direction: str
    target: float | None
    primary: bool


@dataclass(frozen=True, eq=False)
class Run:
    """One seed: the attempt that counts (done or diverged; else the latest that failed) and what it measured."""

    key: str
    attempt: str
    path: str
    seed: int
    status: str
    reason: str | None
    step: int | None
    chain: int | None
    passes: float | None
    seconds: float | None
    draws: int | None
    metrics: Mapping[str, Value]


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ only in seed. `settings` holds every resolved setting by its dotted name."""

    key: str
    method: str
    task: str
    task_version: int
    protocol: str
    budget: str
    steps: int
    chains: int
    settings: Mapping[str, Any]
    provenance: Mapping[str, str]
    runs: Sequence[Run]

    @property
    def done(self) -> list[Run]:
        """The runs that came to their end with finite draws."""
        return [run for run in self.runs if run.status == "done"]

    @property
    def diverged(self) -> list[Run]:
        """The runs of which a chain became non-finite."""
        return [run for run in self.runs if run.status == "diverged"]

    @property
    def failed(self) -> list[Run]:
        """The runs that the machine or an error ended; they may be run again."""
        return [run for run in self.runs if run.status not in {"done", "diverged"}]

    def metrics(self) -> dict[str, Value]:
        """What is known of each metric (unit, direction, newest version) among the runs; primary ones first."""
        found: dict[str, Value] = {}
        for run in self.runs:
            for name, value in run.metrics.items():
                if name not in found or value.version > found[name].version:
                    found[name] = value
        return dict(sorted(found.items(), key=lambda item: (not item[1].primary, item[0])))


Field = tuple[str, int, str, int, str, str]
"""What a table compares within: task, version, protocol, chains, budget, and the task's settings as JSON."""


def field_of(group: Group) -> Field:
    """The field of comparison that a group belongs to: never pooled with another."""
    task = {name: value for name, value in group.settings.items() if name.startswith("task.")}
    settings = json.dumps(task, sort_keys=True)
    return group.task, group.task_version, group.protocol, group.chains, group.budget, settings


def fields(groups: Iterable[Group]) -> list[list[Group]]:
    """The groups, a list a field of comparison, in a fixed order."""
    found: dict[Field, list[Group]] = {}
    for group in groups:
        found.setdefault(field_of(group), []).append(group)
    return [sorted(found[key], key=lambda g: (g.method, g.key)) for key in sorted(found)]


_CHOSEN = """
where ($1 is null or list_contains($1, task))
    and ($2 is null or list_contains($2, method))
    and ($3 is null or list_contains($3, protocol))
"""
_METRICS = f"select * from run_metric {_CHOSEN} order by attempt, metric"  # noqa: S608 - a constant
_RESULTS = f"select * from result {_CHOSEN} order by group_key, seed"  # noqa: S608 - a constant


def load_groups(store: Store, request: Request) -> list[Group]:
    """All groups that the request names and that have a concluded run."""
    chosen = [list(names) or None for names in (request.tasks, request.methods, request.protocols)]
    metrics: dict[str, dict[str, Value]] = {}
    for row in store.rows(_METRICS, chosen):
        value = Value(*(row[k] for k in ("value", "metric_version", "unit", "direction", "target", "is_primary")))
        metrics.setdefault(row["attempt"], {})[row["metric"]] = value
    members: dict[str, list[dict[str, Any]]] = {}
    for row in store.rows(_RESULTS, chosen):
        members.setdefault(row["group_key"], []).append(row)
    return [_group(key, rows, metrics) for key, rows in members.items()]


def load_fields(store: Store, request: Request) -> list[list[Group]]:
    """The groups that the request names, a list a field of comparison."""
    return fields(load_groups(store, request))


def load_curves(store: Store, groups: Iterable[Group], names: Sequence[str]) -> dict[tuple[str, str], Curve]:
    """The named curves of the groups' runs, by (attempt, name); NaN where a value does not exist."""
    attempts = sorted(run.attempt for group in groups for run in group.runs)
    if not attempts or not names:
        return {}
    frame = store.frame(
        "select attempt, name, chain, i, x, y from curve where list_contains(?, attempt) and list_contains(?, name) "
        "order by attempt, name, chain, i",
        [attempts, list(names)],
    )
    found: dict[tuple[str, str], Curve] = {}
    for (attempt, name), part in frame.group_by(["attempt", "name"], maintain_order=True):
        chains = part["chain"].n_unique()
        x = part["x"].to_numpy().astype(np.float64).reshape(chains, -1)
        y = part["y"].fill_null(np.nan).to_numpy().astype(np.float64).reshape(chains, -1)
        found[str(attempt), str(name)] = (x[0], y)
    return found


def _group(key: str, rows: list[dict[str, Any]], metrics: Mapping[str, Mapping[str, Value]]) -> Group:
    first = rows[0]
    origins: dict[str, Any] = {}
    for row in rows:
        origins |= json.loads(row["origins"])
    return Group(
        key=key,
        # One group may have been asked for under two names (csgld, or sgld with a schedule) or two budgets.
        method=min((row["method"] for row in rows), key=lambda name: (name == first["sampler"], name)),
        budget=min((row["budget"] for row in rows), key=lambda label: ("=" in label, label)),
        task=first["task"],
        task_version=first["task_version"],
        protocol=first["protocol"],
        steps=first["steps"],
        chains=first["chains"],
        settings=_settings(first),
        provenance={name: str(origin["provenance"]) for name, origin in origins.items()},
        runs=[_run(row, metrics.get(row["attempt"], {})) for row in rows],
    )


def _settings(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"schedule": row["schedule"]}
    for part in ("sampler", "schedule", "task"):
        found |= {f"{part}.{name}": value for name, value in json.loads(row[f"{part}_params"]).items()}
    found |= {f"run.{name}": row[name] for name in ("steps", "burn_in", "thin", "dtype", "deterministic", "compile")}
    sources = {f"{part} source": row[f"{part}_source"][:8] for part in ("sampler", "schedule", "task")}
    return {**found, **sources, "task data": row["task_data"][:8], "engine": row["engine"]}


def _run(row: Mapping[str, Any], metrics: Mapping[str, Value]) -> Run:
    return Run(
        key=row["run_key"],
        attempt=row["attempt"],
        path=row["path"],
        seed=row["seed"],
        status=row["status"],
        reason=row["reason"],
        step=row["step"],
        chain=row["chain"],
        passes=row["passes"],
        seconds=row["seconds_sampling"],
        draws=row["draws_kept"],
        metrics=metrics,
    )
