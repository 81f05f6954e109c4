"""Computes metrics of kept draws with the task's current observer, and writes them next to the result.

This runs in a worker process. A run is refused, with the reason, if some draws that its observer saw were not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness import BenchError, RunError, Sampler
from harness.contracts import plugin_process
from harness.results import Attempt, Ledger, RunSpec, Send, Status, checksum, commit, environment, rescored
from harness.runs import Job, curve_arrays, metric_values, prepare, truths, writing
from harness.runs.failure import DiskError
from harness.runs.plugin_metadata import parts
from harness.system import columns, read_bytes
from harness.tasks import Cost, Observer, Outcome, Streams, Task, locate
from plugins.upkeep import rescored_record
from plugins.upkeep.stored_spec import truth_of

DRAWS = "draws.safetensors"
BLOCK = 1024
"""Draws passed to an observer at once."""


@dataclass(frozen=True)
class Asked:
    """An attempt, its run with the current code, the metrics to compute, and whether to write them.

    If `write`, they are written if they differ, or always if `always`.
    """

    path: Path
    spec: RunSpec
    metrics: tuple[str, ...]
    write: bool = True
    always: bool = False


def rescore(job: Job, asked: Sequence[Asked], send: Send) -> None:
    """Measure one attempt after the other, each within the job's time limit.

    For each one send "refused" with the reason, or "rescored" with the values and versions that changed, whether
    anything was written, and all that was measured: metrics and, if nothing is to be written, curves.
    """
    measuring = prepare(job)
    here = environment.collect("cpu", job.distributions)
    for item in asked:
        plugin_process.limit(job.timeout or 0)
        try:
            measured = _one(item, here["code"], job.results, measuring)
        except DiskError:
            raise
        except BenchError as error:
            send("refused", {"path": item.path, "reason": str(error)})
        except Exception as error:  # noqa: BLE001 - a plugin's own failure must not stop the others
            send("refused", {"path": item.path, "reason": f"{type(error).__name__}: {error}"})
        else:
            send("rescored", {"path": item.path, **measured})


def _one(item: Asked, code: Mapping[str, Any], results: Path, measuring: Any) -> dict[str, Any]:
    """Rescore one attempt; return what changed, and whether it was written."""
    attempt = Attempt(item.path)
    result = attempt.result()
    if result is None or result["status"] != Status.DONE:
        raise RunError("it is not a finished run")
    task = truths.task_with_truth(results, item.spec)
    outcome = _measure(item.spec, task, result, _draws(attempt, result))
    if measuring is not None:
        measuring.check()
    ledger = Ledger(item.path.parents[3])
    with ledger.hold(item.path.parent.name, commit.PATIENCE) if item.write else nullcontext():
        return _replaced(item, attempt, result, task, outcome, code)


def _replaced(
    item: Asked, attempt: Attempt, result: Mapping[str, Any], task: Task, outcome: Outcome, code: Mapping[str, Any]
) -> dict[str, Any]:
    """Replace the metrics that an attempt has now by those that were measured; return what changed."""
    newer, _ = rescored.read(item.path)
    before = {record["name"]: record for record in (newer or result)["metrics"]}
    after = dict(before)
    measured = [*map(columns.document, metric_values(task, outcome.metrics))]
    for record in measured:
        name = record["name"]
        after[name] = record if name in item.metrics or name not in before else before[name]
    after = {name: {**record, "primary": name == task.metrics[0].name} for name, record in after.items()}
    stored = truths.checksum(task)
    written = item.write and (item.always or after != before or stored != (truth_of(attempt) or ""))
    if written:
        about = {"task": item.spec.task.name, "task_source": item.spec.task.source, "distributions": dict(code)}
        about |= {"truth": stored} if stored else {}
        with writing():
            rescored_record.write(attempt, list(after.values()), curve_arrays(outcome), about)
    changes = [
        {
            "metric": name, "version_before": old.get("version"), "version": record["version"],
            "before": old.get("value"), "after": record["value"],
        }
        for name, record in after.items()
        if _reading(old := before.get(name, {})) != _reading(record)
    ]  # fmt: skip
    curves = {} if item.write else curve_arrays(outcome)
    return {"changes": changes, "written": written, "measured": measured, "curves": curves}


def _reading(record: Mapping[str, Any]) -> tuple[Any, Any]:
    return record.get("version"), record.get("value")


def _draws(attempt: Attempt, result: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return all draws (n, C, D) of a run, their steps (n,) and, if they are stored, their log_weights (n, C).

    Raise `RunError` if some are missing or damaged.
    """
    from safetensors.numpy import load

    path = attempt.path / DRAWS
    if result["draws_stride"] != 1 or result["draws_stored"] != result["draws_kept"]:
        raise RunError("not all of its draws were kept: run it again")
    if not path.exists():
        raise RunError("its draws are missing: run it again")
    if checksum(path) != (result.get("files") or {}).get(DRAWS):
        raise RunError("its draws are damaged: run it again")
    return load(read_bytes(path))


def _measure(spec: RunSpec, task: Task, result: Mapping[str, Any], kept: Mapping[str, NDArray[Any]]) -> Outcome:
    """Return the observer's metrics of the draws, with their stored weights or those that the schedule gives them."""
    if task.version != spec.task_version:
        raise RunError(f"the task has version {task.version} now, its draws have version {spec.task_version}")
    sampler, schedule, trajectory = parts(spec, task.steps_per_epoch())
    if type(sampler).log_weight is not Sampler.log_weight and "log_weights" not in kept:
        raise RunError("its draws have weights, which an earlier version did not keep: run it again")
    for file in task.datasets:
        locate(file)
    draws, steps = kept["draws"], kept["steps"]
    count = sampler.particles
    if not np.array_equal(np.flatnonzero(trajectory.keep).repeat(count) + 1, steps):
        raise RunError("its schedule now keeps other steps than the run did")
    streams = [Streams(spec.seed, chain, (spec.task.name,)) for chain in range(spec.chains)]
    at_start = result["passes"] - result["steps_done"] * result["passes_per_step"]
    seen, cost = trajectory.shared(count), Cost(at_start, result["passes_per_step"]).shared(count)
    steps = np.flatnonzero(seen.keep) + 1
    observer = task.build(streams, "cpu").observer(slice(0, spec.chains), seen, cost)
    sizes = seen.step_size[seen.keep]
    by_schedule = sizes / sizes[:1] if schedule.weights == "step-size" else np.ones(len(draws))
    by_draw = np.exp(kept["log_weights"].astype(np.float64)) if "log_weights" in kept else by_schedule[:, None]
    return observe(observer, task, draws, by_draw, steps)


def observe(
    observer: Observer, task: Task, draws: NDArray[Any], weights: NDArray[Any], steps: NDArray[np.int64]
) -> Outcome:
    """Pass draws (n, C, D) with weights (n, C) or (n, 1) to an observer, block by block; return what it measured."""
    dtype: torch.dtype = getattr(torch, task.dtype)
    for start in range(0, len(draws), BLOCK):
        part = slice(start, start + BLOCK)
        block = torch.from_numpy(draws[part].copy()).to(dtype)
        each = torch.from_numpy(weights[part]).to(dtype)
        observer.observe(block, each.expand(block.shape[:2]), steps[part])
    return observer.outcome()
