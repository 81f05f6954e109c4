"""Make groups of replicates from frames of runs."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.contracts.hookspecs import Info, Method
from harness.reporting.scoring.groups import CHANGED, Group, Numbers, Readings, Run, Runs, TaskCode
from harness.reporting.scoring.labels import SHORT
from harness.results import laws
from harness.results.records import Level, ValueRow
from harness.results.spec import GIVEN, LATE, SETTINGS, TUNED, budget_label, read_origin
from harness.runs.stated import settle

if TYPE_CHECKING:
    import polars as pl

    from harness.contracts.hookspecs import StatedSettings
    from harness.results.store.scored_runs import GroupFrames
    from harness.results.timings import Timing

_NUMBERS = [field.name for field in dataclasses.fields(Numbers)]
_RUN = [field.name for field in dataclasses.fields(Run) if field.name != "metrics"]
Code = tuple[str, str, str]
"""A task with the hashes of its source and its data."""


def groups_of(
    frames: GroupFrames,
    installed: Callable[[str], Collection[str]] = lambda _: (),
    offered: Mapping[str, Info | Method] = MappingProxyType({}),
    stated: Iterable[StatedSettings] = (),
    timings: Mapping[str, Timing] | None = None,
    outcomes: Mapping[str, laws.Outcome] = MappingProxyType({}),
    caveats: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> list[Group]:
    """Return the groups of the frames.

    installed  returns the hashes of a task's installed code
    offered    the samplers and methods by name
    stated     the settings that papers, or others, state now
    timings    what `bench time` measured, by group
    outcomes   outcomes of the laws, by `laws.key`
    caveats    what has to be known about the runs of groups
    """
    readings = _readings(frames.metrics)
    codes = _codes(frames.codes.rows(), installed)
    origins: dict[str, dict[str, Any]] = {}
    for key, text in frames.origins.iter_rows():
        _merge(origins.setdefault(key, {}), json.loads(text))
    stated_for = {(one.method, one.task, one.protocol): one for one in stated}
    columns = [frames.runs[name].to_list() for name in _NUMBERS]
    levels, full, held = (frames.runs[name].to_list() for name in ("level", "full_gradients", "laws"))
    counts = frames.runs.group_by("group_key", maintain_order=True).len()
    starts = dict(zip(counts["group_key"], itertools.accumulate(counts["len"], initial=0), strict=False))
    lengths = dict(counts.iter_rows())
    groups = []
    for row in frames.groups.iter_rows(named=True):
        key = row["group_key"]
        rows = slice(starts[key], starts[key] + lengths[key])
        runs = Runs(Numbers(*(column[rows] for column in columns)), _maker(frames.runs[rows], readings.get(key, {})))
        groups.append(
            Group(
                key=key,
                # A group may have been run under two names (csgld, or sgld with a schedule) or two budgets.
                method=row["name"],
                budget=budget_label(row["label"]),
                task=row["task"],
                task_version=row["task_version"],
                protocol=row["protocol"],
                steps=row["steps"],
                chains=row["chains"],
                settings=_settings(row),
                provenance=settle(
                    {name: o for name, o in origins[key].items() if o["provenance"] not in (GIVEN, LATE)},
                    stated_for.get((row["name"], row["task"], row["protocol"])),
                ),
                given={
                    name.partition(".")[2]: str(o["value"])
                    for name, o in origins[key].items()
                    if o["provenance"] == GIVEN
                },
                tuned=next((str(o["source"]) for o in origins[key].values() if o["provenance"] == TUNED), ""),
                tuning=next((read_origin(o).tuning for o in origins[key].values() if o.get("tuning")), None),
                runs=runs,
                readings=readings.get(key, {}),
                task_code=codes.get((row["task"], row["task_source"], row["task_data"])),
                full_gradients=next((known for known in full[rows] if known is not None), None),
                level=min(map(Level, set(levels[rows])), key=[*Level].index),
                laws=_held(held[rows], outcomes, row),
                timing=timings.get(key) if timings else None,
                caveats=caveats.get(key, {}),
                **_kind(offered, row["name"], row["sampler"]),
            )
        )
    return groups


def _held(texts: Iterable[str], outcomes: Mapping[str, laws.Outcome], row: Mapping[str, Any]) -> laws.Outcome:
    """Return the outcome of a row: what its runs bring along, the worst of them, or else that of its settings."""
    brought = [laws.Outcome.from_json(text) for text in dict.fromkeys(texts)]
    worst = min(brought, key=lambda outcome: outcome.verdict == laws.Verdict.PASSED)
    if worst != laws.NOT_RUN:
        return worst
    return outcomes.get(laws.key(row["sampler"], row["sampler_source"], row["sampler_params"]), laws.NOT_RUN)


def _kind(offered: Mapping[str, Info | Method], method: str, sampler: str) -> dict[str, bool]:
    """Return whether a method is a baseline or an optimiser, and whether its name implies its schedule."""
    infos = [offered[name] for name in (method, sampler) if name in offered]
    kinds = {kind: any(getattr(info, kind, False) for info in infos) for kind in ("baseline", "optimiser")}
    return {**kinds, "schedule_in_name": method != sampler and all(getattr(info, "schedule", "-") for info in infos)}


def _maker(rows: pl.DataFrame, readings: Mapping[str, Sequence[Readings]]) -> Callable[[], list[Run]]:
    """Return a function that makes the runs of a group."""
    return lambda: [
        Run(**row, metrics=_Metrics(readings, row["seed"])) for row in rows.select(_RUN).iter_rows(named=True)
    ]


def _codes(rows: Sequence[tuple[Any, ...]], installed: Callable[[str], Collection[str]]) -> dict[Code, TaskCode]:
    """Return the name of each version of code and data, for tasks that were run with several versions.

    `rows` have a task, its source and data, and the latest attempt. The installed code is current. If the task is not
    installed, or several versions have the installed code, the version that was run last is current.
    """
    names: dict[Code, TaskCode] = {}
    for task, group in itertools.groupby(rows, key=lambda row: row[0]):
        versions = list(group)
        if len(versions) == 1:
            continue
        here = installed(task)
        latest = max((last for _, source, _, last in versions if source in here or not here), default="")
        several = len({data for _, _, data, _ in versions}) > 1
        size = next(n for n in SHORT if len({(s[:n], d[:n]) for _, s, d, _ in versions}) == len(versions))
        for _, source, data, last in versions:
            which = f"task source {source[:size]}{f', data {data[:size] or None}' if several else ''}"
            current = last == latest
            names[task, source, data] = TaskCode(f"{which}, {'current' if current else 'older'} code", current)
    return names


def _merge(known: dict[str, Any], record: dict[str, Any]) -> None:
    """Merge the origins of a run into the known ones.

    For conflicting origins, the last seed wins. A user who restates a default does not override it.
    """
    for name, origin in record.items():
        if name not in known or origin["provenance"] not in CHANGED:
            known[name] = origin


def _readings(metrics: pl.DataFrame) -> dict[str, dict[str, list[Readings]]]:
    by_group: dict[str, dict[str, list[Readings]]] = {}
    for key, of, read, *about in metrics.iter_rows():
        known = ValueRow(summary="", **dict(zip(metrics.columns[3:], about, strict=True)))
        versions = by_group.setdefault(key, {}).setdefault(known.name, [])
        new = Readings(known, np.asarray(of), np.asarray(read))
        if versions and versions[-1].known.version == new.known.version:  # the first seed's description is kept
            last = versions.pop()
            seeds, numbers = np.concatenate([last.seeds, new.seeds]), np.concatenate([last.values, new.values])
            new = Readings(last.known, seeds, numbers)
        by_seed = np.argsort(new.seeds)
        versions.append(Readings(new.known, new.seeds[by_seed], new.values[by_seed]))
    return by_group


def _settings(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's settings and hashes: its canonical form without task, protocol, chains and seed."""
    settings: dict[str, Any] = {"sampler": row["sampler"], "schedule": row["schedule"]}
    for part in ("sampler", "schedule", "task"):
        settings |= {f"{part}.{name}": value for name, value in json.loads(row[f"{part}_params"]).items()}
        settings[f"{part} source"] = row[f"{part}_source"]
    plain = {name: row[name] for name in SETTINGS if row.get(name) is not None}
    settings |= {"warm start source": row["warm_source"]} if row["warm_source"] else {}
    settings |= {f"run.{name}": value for name, value in {**plain, **json.loads(row["execution"])}.items()}
    return {**settings, "task data": row["task_data"], "engine": row["engine"], "key version": row["key_version"]}


class _Metrics(Mapping[str, ValueRow]):
    """The metrics of one seed, looked up on access, because the values of many runs take most memory."""

    def __init__(self, readings: Mapping[str, Sequence[Readings]], seed: int) -> None:
        self._readings = readings
        self._seed = seed

    def __getitem__(self, name: str) -> ValueRow:
        for readings in self._readings[name]:
            i = int(np.searchsorted(readings.seeds, self._seed))
            if i < len(readings.seeds) and readings.seeds[i] == self._seed:
                value = float(readings.values[i])
                return dataclasses.replace(readings.known, value=None if math.isnan(value) else value)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._readings if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
