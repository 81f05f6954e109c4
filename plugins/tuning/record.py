"""A study as data: what was searched and by which rules, the cost of all of it, and the settings that won."""

from __future__ import annotations

import importlib.metadata
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import DataError
from harness.reports import Store
from harness.results import ENGINE, PARTS, RunSpec, Status
from harness.results import spec as run_specs
from harness.system import alone, write_whole
from harness.tasks import TUNING_SEED
from plugins.tuning import studies
from plugins.tuning.search import Objective, Search, Trial

_SPENT = """
select method, task, protocol, sum(passes * chains) as passes from attempt join run using (run_key)
where seed >= ? and passes is not null group by all
"""
PairKey = tuple[str, str, str]
"""The names of a method, a task and a protocol."""
CHOICE = ("settings", "value", "upper", "value_search", "at_edge", "code", "run_keys")
"""Fields of a record about the settings that were chosen."""
ALIKE = ("objective", "direction", "budget", "chains", "finalist_seeds", "engine")
"""Fields that two searches share whose choices can be compared."""
WHOSE = ("code", "engine")
"""What a search was of, beside its command."""


def spent(store: Store) -> dict[PairKey, float]:
    """Return the data passes of all chains of all runs on tuning seeds, by pair."""
    rows = store.rows(_SPENT, [TUNING_SEED])
    return {(row["method"], row["task"], row["protocol"]): row["passes"] for row in rows}


def record(
    spec: RunSpec, search: Search, others: Sequence[Trial], objective: Objective, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the record of one pair without its cost.

    spec    a run of the pair, of any trial
    others  trials before the search: those of a coarse pass, and those that all failed before it
    asked   what the command stated of the search
    """
    chosen = search.chosen
    assert chosen is not None
    assert chosen.final is not None
    trials = [*others, *search.trials]
    this_search = {
        **asked,
        "budget": spec.budget,
        "search_version": run_specs.SEARCH_VERSION,
        "code": sources(spec),
        "engine": ENGINE,
        "trials": len(trials),
        "coarse": sum(trial.asked is None for trial in others),
        "pruned": sum(trial.stopped for trial in trials),
        "failed": sum(any(status != Status.DONE for status in trial.statuses) for trial in trials),
        "refused": sum(bool(trial.refused) for trial in trials),
        "widenings": search.widenings,
        "space": {
            schedule: {name: [limits.low, limits.high] for name, limits in ranges.items()}
            for schedule, ranges in search.spaces.items()
        },
        "finalists": [
            {"settings": trial.values, "value": objective.of(trial.final), "upper": objective.shown(trial.final.upper)}
            for trial in search.compared
            if trial.final
        ],
        "rule": f"optuna {importlib.metadata.version('optuna')}, TPE, median pruner",
    }
    return {
        "method": spec.method,
        "task": spec.task.name,
        "protocol": spec.protocol,
        "settings": chosen.values,
        "objective": objective.metric,
        "direction": objective.direction,
        "value": objective.of(chosen.final),
        "upper": objective.shown(chosen.final.upper),
        "value_search": objective.of(chosen),
        "value_untuned": objective.of(search.untuned) if search.untuned and search.untuned.seen else None,
        "at_edge": search.edges(chosen),
        "budget": spec.budget,
        "asked_budget": asked["asked_budget"],
        **({"search": asked["search"]} if "search" in asked else {}),
        "chains": spec.chains,
        "seeds": asked["seeds"],
        "finalist_seeds": asked["finalist_seeds"],
        "schedules": list(search.spaces),
        "search_version": run_specs.SEARCH_VERSION,
        "searches": [this_search],
        "code": sources(spec),
        "engine": ENGINE,
        "run_keys": chosen.final.keys,
    }


def sources(spec: RunSpec) -> dict[str, str]:
    """Return the hashes of the code of a run's parts."""
    return {part: getattr(spec, part).source for part in PARTS}


def add(
    file: Path, records: Mapping[studies.StudyKey, Mapping[str, Any]], passes: Mapping[PairKey, float]
) -> dict[studies.StudyKey, dict[str, Any]]:
    """Add records to a study's file, in place of earlier ones of the same pairs and budgets, and return them.

    All records of these pairs, in all studies of the folder, get the cost and the list of all their searches. Where
    the finalists of several searches of a pair ran on the same seeds, the best of them all is chosen.
    """
    file.parent.mkdir(exist_ok=True)
    with alone(file.parent):
        known = {path: _readable(path) for path in file.parent.glob("*.json") if path != file}
        known[file] = studies.read(file) if file.is_file() else {}
        before = [one for of_file in known.values() for one in of_file.values()]
        records = {key: _best(one, known[file].get(key)) for key, one in records.items()}
        known[file] = {**known[file], **records}
        costs = {key[:3]: _cost([*before, *records.values()], key[:3], passes.get(key[:3], 0.0)) for key in records}
        for path, of_file in known.items():
            complete = {key: {**one, **costs.get(key[:3], {})} for key, one in of_file.items()}
            if complete != of_file or path == file:
                lines = ",\n".join(json.dumps(complete[key], allow_nan=False) for key in sorted(complete))
                write_whole(path, f'{{"format": {studies.FORMAT}, "tuned": [\n{lines}\n]}}\n'.encode())
        return {key: {**one, **costs[key[:3]]} for key, one in records.items()}


def _readable(file: Path) -> Mapping[studies.StudyKey, Mapping[str, Any]]:
    try:
        return studies.read(file)
    except DataError:
        return {}


def _best(record: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a record, with what an earlier search of the pair chose if that was better on the finalists' seeds.

    Nothing is taken over from a search of other code, of another objective, or without finalists.
    """
    if earlier is None or not record["finalist_seeds"] or not {*ALIKE, *CHOICE} <= earlier.keys():
        return record
    parts = [(earlier["code"].get(part), record["code"][part]) for part in ("sampler", "task")]
    if any(one != other for one, other in [*((earlier[name], record[name]) for name in ALIKE), *parts]):
        return record
    sign = -1.0 if record["direction"] == "max" else 1.0
    ends = [one["upper"] for one in (record, earlier)]
    now, before = (sign * end if isinstance(end, float) else math.inf for end in ends)
    return {**record, **{name: earlier[name] for name in CHOICE}} if before < now else record


def _cost(records: Sequence[Mapping[str, Any]], pair: PairKey, passes: float) -> dict[str, Any]:
    """Return the cost of a pair and all its searches, each once: the same command resumes a search of the same code.

    Earlier searches do not name their code; one that is equal otherwise was resumed.
    """
    of_pair = [one for one in records if (one["method"], one["task"], one["protocol"]) == pair]
    lists = [one["searches"] if "searches" in one else [_earlier(one)] for one in of_pair]
    each = {
        (one["command"], one["search_version"], json.dumps(one.get("code"), sort_keys=True), one.get("engine")): one
        for of_record in lists
        for one in of_record
    }
    resumed = [{k: v for k, v in one.items() if k not in WHOSE} for one in each.values() if "code" in one]
    searches = [one for one in each.values() if "code" in one or one not in resumed]
    return {
        "searches": searches,
        "trials": sum(one["trials"] for one in searches),
        "passes": max(passes, *(float(one.get("passes", 0.0)) for one in of_pair)),  # runs may have been deleted
    }


def _earlier(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the search of a record of the first rules, which had one."""
    names = ("budget", "trials", "pruned", "failed", "refused", "space", "rule", "seeds", "chains")
    details = {name: record[name] for name in names if name in record}
    return {
        **details,
        "search_version": 1,
        "command": f"earlier rules, {record['trials']} trials at {record['budget']}",
    }
