"""A study as data: the space that was searched, the rule, the cost, and the settings that were found."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.results import ENGINE, PARTS, RunSpec, Status
from harness.runs import studies
from harness.system import alone, write_whole
from plugins.tuning.objective import Objective
from plugins.tuning.search import Search


def record(spec: RunSpec, search: Search, objective: Objective, seeds: list[int]) -> dict[str, Any]:
    """Return the record of one pair. `spec` is a run of its first trial; `passes` counts all chains of all trials."""
    best, untuned = search.best, search.untuned
    assert best is not None
    return {
        "method": spec.method,
        "task": spec.task.name,
        "protocol": spec.protocol,
        "settings": {"schedule": spec.schedule.name, **best.values},
        "objective": objective.metric,
        "direction": objective.direction,
        "value": objective.of(best),
        "value_untuned": objective.of(untuned) if untuned and untuned.seen else None,
        "trials": len(search.trials),
        "pruned": sum(trial.stopped for trial in search.trials),
        "failed": sum(any(status != Status.DONE for status in trial.statuses) for trial in search.trials),
        "refused": sum(bool(trial.refused) for trial in search.trials),
        "passes": sum(trial.passes for trial in search.trials),
        "budget": spec.budget,
        "chains": spec.chains,
        "seeds": seeds,
        "space": {name: [limits.low, limits.high] for name, limits in search.space.items()},
        "rule": f"optuna {importlib.metadata.version('optuna')}, TPE, median pruner",
        "code": sources(spec),
        "engine": ENGINE,
        "run_keys": best.keys,
    }


def sources(spec: RunSpec) -> dict[str, str]:
    """Return the hashes of the code of a run's parts."""
    return {part: getattr(spec, part).source for part in PARTS}


def add(file: Path, tuned: Mapping[studies.Place, Mapping[str, Any]]) -> None:
    """Add records to a study's file, in place of earlier records of the same pairs."""
    file.parent.mkdir(exist_ok=True)
    with alone(file.parent):
        records = {**(studies.read(file) if file.is_file() else {}), **tuned}
        lines = ",\n".join(json.dumps(records[pair], allow_nan=False) for pair in sorted(records))
        write_whole(file, f'{{"format": {studies.FORMAT}, "tuned": [\n{lines}\n]}}\n'.encode())
