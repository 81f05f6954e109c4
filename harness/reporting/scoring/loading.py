"""Load groups from the store. DuckDB collects the numbers of all runs into columns, with one list per group."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.contracts.hookspecs import Info, Method
from harness.contracts.randomness import TUNING_SEED
from harness.contracts.registry import registry
from harness.contracts.stated import StatedSettings
from harness.reporting.report import Request
from harness.reporting.scoring.groups import (
    CHANGED,
    Curve,
    Group,
    Numbers,
    Readings,
    Run,
    Runs,
    TaskCode,
)
from harness.reporting.scoring.labels import SHORT
from harness.results.records import ELSEWHERE, Level, Value, columns_of
from harness.results.spec import GIVEN, SETTINGS, TUNED
from harness.results.store import Store
from harness.runs.source import source_hash
from harness.runs.stated import settle, stated_settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray


def _ranking(protocol: str) -> list[str]:
    """Return the levels of verification at which groups of a protocol rank."""
    return [str(level) for level in Level if level.ranks(protocol)]


_CHOSEN = """
where ($1 is null or list_contains($1, task))
    and ($2 is null or list_contains($2, method))
    and ($3 is null or list_contains($3, protocol))
"""
_LEVEL = f"coalesce(level, if(protocol = '{ELSEWHERE}', '{Level.RESCORED}', '{Level.RUN_HERE}'))"
_RANKS = f"list_contains(if(protocol = '{ELSEWHERE}', {_ranking(ELSEWHERE)}, {_ranking('')}), {_LEVEL})"
_RESULT = f"""(
    select result.*, {_LEVEL} as level from result left join verification using (attempt)
    qualify {_RANKS} or not bool_or({_RANKS}) over (partition by group_key)
)"""  # noqa: S608 - words of ours
_TRIALS = f"(select *, '{Level.RUN_HERE}' as level from run_status where concluded and seed >= {TUNING_SEED})"  # noqa: S608
_SOURCE = {False: _RESULT, True: _TRIALS}
"""The reported runs, and the trials of `bench tune`. If some runs of a group rank, only these are reported."""
_RUNS = """
create temp table chosen as
select group_key, run_key, seed, attempt, level, status, passes, seconds_sampling, draws_kept
from {source} {chosen}
"""
_NUMBERS = "select group_key, seed, status, passes, seconds_sampling, draws_kept from chosen order by group_key, seed"
_GROUPS = """
select run.*, numbered.* exclude (group_key) from run join (
    select group_key, min_by(run_key, seed) as run_key,
        coalesce(min(method) filter (method <> sampler), min(method)) as name,
        coalesce(min(budget) filter (not contains(budget, '=')), min(budget)) as label
    from chosen join run using (group_key, run_key, seed) group by group_key
) numbered on numbered.run_key = run.run_key
order by group_key
"""
_ORIGINS = """
select group_key, origins from chosen join run using (group_key, run_key, seed)
group by group_key, origins order by group_key, max(seed)
"""
_LEVELS = "select group_key, list(distinct level) from chosen group by group_key"
_ABOUT = [name for name in columns_of("metric") if name not in ("attempt", "value")]
_READINGS = f"""
select group_key, {", ".join(f"metric.{name}" for name in _ABOUT)},
    list(seed) as seeds, list(coalesce(value, 'nan'::double)) as numbers
from chosen join metric on metric.attempt = chosen.attempt
group by all
order by group_key, name, version desc, min(seed)
"""  # noqa: S608 - names of ours
_DETAILS = """
select group_key, run_key as key, attempt, path, seed, status, reason, step, chain, passes, seconds_sampling, draws_kept
from {source} {chosen} order by group_key, seed
"""
_CODES = """
select run.task, task_source, task_data, max(attempt) as latest
from chosen join run using (group_key, run_key, seed) group by all order by all
"""
AT_ONCE = 5000
"""Number of attempts whose curves are in memory at once, 150 MB. For each batch, DuckDB scans all attempts' curves."""
_CURVES = """
select attempt, name, x, y from curve_points where attempt in (select unnest(?)) and list_contains(?, name)
"""


def load_groups(store: Store, request: Request, *, trials: bool = False) -> list[Group]:
    """Return all groups that the request selects and that have a concluded run.

    With `trials`, return only the groups of `bench tune`.
    """
    source = {"source": _SOURCE[trials], "chosen": _CHOSEN}
    chosen = [list(names) or None for names in (request.tasks, request.methods, request.protocols)]
    with store.reading() as db:
        db.execute(_RUNS.format(**source), chosen)
        numbers = _numbers(db)
        readings = _readings(db)
        origins: dict[str, dict[str, Any]] = {}
        for key, text in db.execute(_ORIGINS).fetchall():
            _merge(origins.setdefault(key, {}), json.loads(text))
        levels = {key: min(map(Level, found), key=[*Level].index) for key, found in db.execute(_LEVELS).fetchall()}
        rows = _dicts(db, _GROUPS)
        codes = _codes(db.execute(_CODES).fetchall(), request)
    stated = {(s.method, s.task, s.protocol): s for s in stated_settings(request.registry or registry())}
    baselines = _baselines(request)
    details = functools.cache(lambda: _details(store, _DETAILS.format(**source), chosen))
    return [
        _group(
            row,
            numbers[key],
            readings.get(key, {}),
            origins[key],
            stated.get((row["name"], row["task"], row["protocol"])),
            codes.get(_code(row)),
            levels[key],
            details,
            baseline=not baselines.isdisjoint((row["name"], row["sampler"])),
        )
        for row in rows
        for key in (row["group_key"],)
        if not request.budgets or row["label"] in request.budgets
        if not request.chains or row["chains"] in request.chains
    ]


def _dicts(db: DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    answer = db.execute(query)
    names = [column[0] for column in answer.description]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


CurveKey = tuple[str, str]
"""An attempt and the name of a curve."""
Code = tuple[str, str, str]
"""A task with the hashes of its source and its data."""


def _code(row: Mapping[str, Any]) -> Code:
    return row["task"], row["task_source"], row["task_data"]


def _codes(rows: Sequence[tuple[str, str, str, str]], request: Request) -> dict[Code, TaskCode]:
    """Return the name of each version of code and data, for tasks that were run with several versions.

    `rows` have a task, its source and data, and the latest attempt. The installed code is current. If the task is not
    installed, or several versions have the installed code, the version that was run last is current.
    """
    found: dict[Code, TaskCode] = {}
    for task, group in itertools.groupby(rows, key=lambda row: row[0]):
        versions = list(group)
        if len(versions) == 1:
            continue
        installed = _installed(request, task)
        latest = max((last for _, source, _, last in versions if source in installed or not installed), default="")
        several = len({data for _, _, data, _ in versions}) > 1
        size = next(n for n in SHORT if len({(s[:n], d[:n]) for _, s, d, _ in versions}) == len(versions))
        for _, source, data, last in versions:
            which = f"task source {source[:size]}{f', data {data[:size] or None}' if several else ''}"
            current = last == latest
            found[task, source, data] = TaskCode(f"{which}, {'current' if current else 'older'} code", current)
    return found


def _installed(request: Request, task: str) -> set[str]:
    """Return the hashes of a task's installed code. The set is empty if the request has no registry."""
    offers = request.registry.offers("tasks") if request.registry is not None else []
    return {source_hash(o.target) for o in offers if o.name == task}


def _baselines(request: Request) -> set[str]:
    """Return the samplers and methods that are offered as baselines. Empty if the request has no registry."""
    known = request.registry
    offers = [o for kind in ("samplers", "methods") for o in known.offers(kind)] if known is not None else []
    return {offer.name for offer in offers if isinstance(offer.info, Info | Method) and offer.info.baseline}


def _merge(known: dict[str, Any], record: dict[str, Any]) -> None:
    """Merge the origins of a run into the known ones.

    For conflicting origins, the last seed wins. A user who restates a default does not override it.
    """
    for name, origin in record.items():
        if name not in known or origin["provenance"] not in CHANGED:
            known[name] = origin


def load_curves(store: Store, groups: Iterable[Group], names: Sequence[str]) -> dict[CurveKey, Curve]:
    """Return the named curves of the groups' runs by (attempt, name), with NaN where a value does not exist."""
    there = store.rows("select 1 from curve_points where list_contains(?, name) limit 1", [list(names)])
    attempts = [run.attempt for group in groups for run in group.runs] if there else []
    if not attempts:
        return {}
    with store.reading() as db:
        return _read_curves(db, attempts, names)


def _read_curves(db: DuckDBPyConnection, attempts: Sequence[str], names: Sequence[str]) -> dict[CurveKey, Curve]:
    import pyarrow as pa

    found: dict[CurveKey, Curve] = {}
    axes: dict[bytes, NDArray[np.float64]] = {}
    for start in range(0, len(attempts), AT_ONCE):
        answer = db.sql(_CURVES, params=[attempts[start : start + AT_ONCE], list(names)])
        for part in pa.RecordBatchReader.from_stream(answer):
            xs, ys = (_lists(part.column(name)) for name in ("x", "y"))
            keys = zip(part.column("attempt").to_pylist(), part.column("name").to_pylist(), strict=True)
            for key, x, y in zip(keys, xs, ys, strict=True):
                found[key] = axes.setdefault(x.tobytes(), x.copy()), y.reshape(-1, len(x))  # a view, freed with all
    return found


def _lists(column: Any) -> Iterator[NDArray[np.float64]]:
    """Return the lists of an Arrow column as arrays, with NaN for NULL."""
    ends, numbers = column.offsets.to_numpy(), column.values.to_numpy(zero_copy_only=False)
    return (numbers[start:stop] for start, stop in itertools.pairwise(ends.tolist()))


def _numbers(db: DuckDBPyConnection) -> dict[str, Numbers]:
    columns = db.sql(_NUMBERS).fetchnumpy()
    keys = columns.pop("group_key")
    lists = [column.tolist() for column in columns.values()]  # a masked array gives None for masked values
    edges = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(keys)] if len(keys) else []
    return {
        str(keys[start]): Numbers(*(column[start:stop] for column in lists))
        for start, stop in itertools.pairwise(edges)
    }


def _readings(db: DuckDBPyConnection) -> dict[str, dict[str, list[Readings]]]:
    columns = db.sql(_READINGS).fetchnumpy()
    found: dict[str, dict[str, list[Readings]]] = {}
    for key, *about, of, read in zip(*(column.tolist() for column in columns.values()), strict=True):
        known = Value(summary="", **dict(zip(_ABOUT, about, strict=True)))
        versions = found.setdefault(key, {}).setdefault(known.name, [])
        new = Readings(known, np.asarray(of), np.asarray(read))
        if versions and versions[-1].known.version == new.known.version:  # the first seed's description is kept
            last = versions.pop()
            seeds, numbers = np.concatenate([last.seeds, new.seeds]), np.concatenate([last.values, new.values])
            new = Readings(last.known, seeds, numbers)
        by_seed = np.argsort(new.seeds)
        versions.append(Readings(new.known, new.seeds[by_seed], new.values[by_seed]))
    return found


def _group(
    row: Mapping[str, Any],
    numbers: Numbers,
    readings: Mapping[str, Sequence[Readings]],
    origins: Mapping[str, Any],
    stated: StatedSettings | None,
    task_code: TaskCode | None,
    level: Level,
    details: Callable[[], Mapping[str, Sequence[Mapping[str, Any]]]],
    *,
    baseline: bool,
) -> Group:
    key = row["group_key"]
    return Group(
        key=key,
        # A group may have been run under two names (csgld, or sgld with a schedule) or two budgets.
        method=row["name"],
        budget=row["label"],
        task=row["task"],
        task_version=row["task_version"],
        protocol=row["protocol"],
        steps=row["steps"],
        chains=row["chains"],
        settings=_settings(row),
        provenance=settle({name: o for name, o in origins.items() if not _is_given(o)}, stated),
        given={name.partition(".")[2]: str(o["value"]) for name, o in origins.items() if _is_given(o)},
        tuned=next((str(o["source"]) for o in origins.values() if o["provenance"] == TUNED), ""),
        runs=Runs(numbers, lambda: [Run(**row, metrics=_Metrics(readings, row["seed"])) for row in details()[key]]),
        readings=readings,
        task_code=task_code,
        level=level,
        baseline=baseline,
    )


def _is_given(origin: Mapping[str, Any]) -> bool:
    return bool(origin["provenance"] == GIVEN)


def _settings(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's settings and hashes: its canonical form without task, protocol, chains and seed."""
    found: dict[str, Any] = {"sampler": row["sampler"], "schedule": row["schedule"]}
    for part in ("sampler", "schedule", "task"):
        found |= {f"{part}.{name}": value for name, value in json.loads(row[f"{part}_params"]).items()}
        found[f"{part} source"] = row[f"{part}_source"]
    plain = {name: row[name] for name in SETTINGS if row.get(name) is not None}
    found |= {"warm start source": row["warm_source"]} if row["warm_source"] else {}
    found |= {f"run.{name}": value for name, value in {**plain, **json.loads(row["execution"])}.items()}
    return {**found, "task data": row["task_data"], "engine": row["engine"], "key version": row["key_version"]}


def _details(store: Store, query: str, chosen: Sequence[Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in store.rows(query, chosen):
        found.setdefault(row.pop("group_key"), []).append(row)
    return found


class _Metrics(Mapping[str, Value]):
    """The metrics of one seed, looked up on access, because the values of many runs take most memory."""

    def __init__(self, readings: Mapping[str, Sequence[Readings]], seed: int) -> None:
        self._readings = readings
        self._seed = seed

    def __getitem__(self, name: str) -> Value:
        for found in self._readings[name]:
            place = int(np.searchsorted(found.seeds, self._seed))
            if place < len(found.seeds) and found.seeds[place] == self._seed:
                value = float(found.values[place])
                return replace(found.known, value=None if math.isnan(value) else value)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._readings if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
