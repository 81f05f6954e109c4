"""The speed of a method on a task, for `--budget seconds=N`.

It is measured once per results folder and stored in its `rates/`. One measurement serves all seeds, so that later seeds
get the same number of steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.cli import context
from harness.results.ledger.ledger import Ledger, RunStatus
from harness.results.records import Status
from harness.runs import local, uncompiled
from harness.runs.local import Place
from harness.runs.plan import Measure, Planned, make_spec
from harness.runs.plugin_metadata import task_facts
from harness.system.errors import UsageError
from harness.system.files import read_json, write_json

STEPS = 200
FASTEST = 1e12
"""Steps per second that no machine reaches. A file with more was not written by `measured`."""


def known(results: Path, place: Place) -> Measure:
    """Return a function that gives the stored speed in steps per second. `UsageError` if there is none."""

    def measure(pair: Any, settings: Any, how: Mapping[str, Any]) -> float | None:
        spec = _specs(pair, settings, how, place.device)[0]
        found = _read(_path(results, spec, place))
        if found is None and not uncompiled.why(spec):
            raise UsageError("--budget seconds=N needs a measured speed; `bench run` measures it")
        return found

    return measure


def measured(ledger: Ledger, place: Place) -> Measure:
    """Return a function that gives the stored speed in steps per second, or measures it in a worker and stores it."""

    def measure(pair: Any, settings: Any, how: Mapping[str, Any]) -> float | None:

        specs = _specs(pair, settings, how, place.device)
        path = _path(ledger.root, specs[0], place)
        found = _read(path)
        if found is None and not uncompiled.why(specs[0]):
            if context.current().launching:
                raise UsageError(
                    "--budget seconds=N is measured here, not where --launcher runs; give passes=N or steps=N"
                )
            ledger.prepare()
            most = task_facts(pair.task, specs[0].task.params)["max_block"][specs[0].execution.device]
            planned = [Planned(spec, RunStatus(Status.NEW), 0.0, most) for spec in specs]
            context.say(f"measuring {specs[0].method} on {specs[0].task.name} over {STEPS} steps")
            job = local.jobs(planned, ledger.root, context.current().plugins, ())[0]
            found = local.measure(job, place, STEPS)
            if found is not None:
                path.parent.mkdir(exist_ok=True)
                write_json(path, {"steps_per_second": found, "seeds": len(specs)})
        return found

    return measure


def _specs(pair: Any, settings: Any, how: Mapping[str, Any], device: str) -> list[Any]:

    settings = replace(settings, run={**settings.run, "burn_in": 0.0, "thin": 1})
    kind = device.partition(":")[0]
    return [make_spec(pair, settings, STEPS, seed, how["chains"], "measured", kind) for seed in how["seeds"]]


def _path(results: Path, spec: Any, place: Place) -> Path:
    shared = f"-{place.shares}" if place.shares > 1 else ""
    return results / "rates" / f"{spec.group}-{place.device.replace(':', '-')}{shared}.json"


def _read(path: Path) -> float | None:

    rate = (read_json(path) or {}).get("steps_per_second")
    return float(rate) if isinstance(rate, int | float) and 0 < rate < FASTEST else None
