"""The kept draws of finished runs, as arrays and as an xarray DataTree for ArviZ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.contracts.randomness import Streams
from harness.reporting.commands import run_command
from harness.results.records import Status
from harness.runs.plugin_metadata import instance, task_facts, weighs
from harness.runs.source import source_hash
from harness.system.errors import DataError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.contracts.registry import Registry
    from harness.results.store import Store

Row = Mapping[str, Any]
"""A row of the view `result`."""
RESAMPLING_SEED = 0
LISTED = 8
"""Most runs that a message lists."""


@dataclass(frozen=True, eq=False)
class Draws:
    """The kept draws of one run.

    draws    (chains, n, D), float32
    steps    (n,), the number of the step that made each draw, counted from 1
    weights  (chains, n), with mean 1; all 1 if sampler and schedule weight draws equally
    run      the settings and status of the run: its row of `Results.runs`
    """

    draws: NDArray[np.float32]
    steps: NDArray[np.int64]
    weights: NDArray[np.float64]
    run: Row

    @property
    def weighted(self) -> bool:
        """Whether the draws have different weights."""
        return bool((self.weights != 1).any())

    def resampled(self) -> NDArray[np.float32]:
        """Return draws (chains, n, D) of equal weight, resampled in each chain according to the weights, in order.

        Systematic resampling with a fixed seed: a draw with k times the mean weight of its chain is taken k times, up
        or down by less than one. The chains' total weights are lost: afterwards all chains have the same weight.
        """
        chains, n, _ = self.draws.shape
        ends = np.cumsum(self.weights, axis=1)
        offsets = np.random.default_rng(RESAMPLING_SEED).random((chains, 1))
        places = (np.arange(n) + offsets) / n * ends[:, -1:]
        index = [np.searchsorted(own, wanted, side="right") for own, wanted in zip(ends, places, strict=True)]
        return np.stack([own[np.minimum(i, n - 1)] for own, i in zip(self.draws, index, strict=True)])


def only_run(rows: Sequence[Row]) -> Row:
    """Return the only run. `UsageError` if there are several or none."""
    if len(rows) == 1:
        return rows[0]
    names = [f"{_name(row)}, seed {row['seed']} ({row['run_key'][:12]})" for row in rows]
    raise _not_one("run", names, "seed=, task=, method=, protocol=, budget=, chains=")


def only_group(rows: Sequence[Row]) -> list[Row]:
    """Return the runs if they differ only in their seed. `UsageError` otherwise, and if there is none."""
    groups = {row["group_key"]: row for row in rows}
    if len(groups) == 1:
        return list(rows)
    names = [f"{_name(row)} ({key[:12]})" for key, row in groups.items()]
    raise _not_one("group of runs that differ in their seed only", names, "task=, method=, protocol=, budget=, chains=")


def _not_one(kind: str, names: Sequence[str], how: str) -> UsageError:
    if not names:
        return UsageError("no finished run matches; `bench ls runs` lists the runs")
    more = f", and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return UsageError(f"choose one {kind}, by {how}, or the beginning of its key: {'; '.join(names[:LISTED])}{more}")


def _name(row: Row) -> str:
    return f"{row['method']} on {row['task']}@{row['protocol']}, {row['budget']}, {row['chains']} chains"


def read(results: Path, row: Row, registry: Registry) -> Draws:
    """Read the draws of a run. `DataError` if it did not keep them or their weights, or they cannot be read."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    here = f"{_name(row)}, seed {row['seed']}"
    path = results / row["path"] / "draws.safetensors"
    command = run_command(row, [row["seed"]], "--draws", "all")
    elsewhere = f"repeat it in another folder: {command} --results DIR"
    if not row["draws_stored"]:
        raise DataError(f"{here}: it kept no draws; its command with --draws all repeats it and keeps them: {command}")
    if not path.is_file():
        raise DataError(f"{here}: its draws were deleted; {elsewhere}")
    try:
        arrays = load_file(path)
        draws, steps, logs = arrays["draws"], arrays["steps"], arrays.get("log_weights")
        chains, n = draws.swapaxes(0, 1).shape[:2]
        damage = "" if steps.shape == (n,) and (logs is None or logs.shape == (n, chains)) else "its arrays do not fit"
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        damage = str(error)
    if damage:
        raise DataError(f"{path} cannot be read: {damage}; `bench ingest --verify` lists what is damaged")
    if logs is None and _weighs(row, registry):
        raise DataError(f"{here}: its draws have weights, which an earlier version did not keep; {elsewhere}")
    logs = np.zeros(draws.shape[:2]) if logs is None else logs.astype(np.float64)
    weights = np.exp(logs - logs.max(initial=-np.inf, where=np.isfinite(logs)))
    return Draws(draws.swapaxes(0, 1), steps, weights.T / weights.mean(), row)


def _weighs(row: Row, registry: Registry) -> bool:
    """Return whether the draws of a run have weights, according to its schedule's settings or the installed sampler."""
    if json.loads(row["schedule_params"]).get("weights", "equal") != "equal":
        return True
    offers = [offer for offer in registry.offers("samplers") if offer.name == row["sampler"]]
    return any(weighs(offer) for offer in offers)


def to_arviz(store: Store, rows: Sequence[Row], registry: Registry, test_rows: int) -> Any:
    """Return the draws of runs that differ only in their seed as an xarray DataTree. See `Results.to_arviz`."""
    try:
        import arviz_base
    except ImportError as error:
        raise UsageError("to_arviz needs arviz-base; pip install 'sgmcmc-bench[arviz]'") from error
    done = [row for row in rows if row["status"] == Status.DONE]
    if not done:
        raise UsageError(f"{_name(rows[0])}: no run is done, they are {', '.join({row['status'] for row in rows})}")
    found = [read(store.results, row, registry) for row in done]
    steps = found[0].steps
    if any(not np.array_equal(steps, other.steps) for other in found):
        raise UsageError(f"{_name(rows[0])}: the seeds kept draws of different steps; choose one by seed=")
    weighted = any(one.weighted for one in found)
    values = [one.resampled() if weighted else one.draws for one in found]
    name, dims = "theta", ["theta_dim"]
    if _is_network(rows[0], registry):
        values = [_predictions(row, theta, registry, test_rows) for row, theta in zip(done, values, strict=True)]
        name, dims = "probability", ["row", "class"]
    about = _attributes(rows, weighted, store)
    tree = arviz_base.from_dict(
        {"posterior": {name: np.concatenate(values)}}, dims={name: dims}, attrs={"/": about, "posterior": about}
    )
    seeds = np.repeat([row["seed"] for row in done], rows[0]["chains"])
    tree["posterior"] = tree["posterior"].to_dataset().assign_coords(seed=("chain", seeds), step=("draw", steps))
    return tree


def _is_network(row: Row, registry: Registry) -> bool:
    params = json.loads(row["task_params"])
    offers = [offer for offer in registry.offers("tasks") if offer.name == row["task"]]
    return any(task_facts(offer, params).opaque for offer in offers)


def _attributes(rows: Sequence[Row], weighted: object, store: Store) -> dict[str, Any]:
    """Return the attributes of the runs in types that netCDF can store: texts, numbers and lists of them."""
    done = [row for row in rows if row["status"] == Status.DONE]
    names = ("method", "task", "task_version", "protocol", "budget", "steps", "group_key")
    (made,) = store.rows(
        "select bench as inference_library_version, torch, python from environment where environment = ?",
        [done[-1]["environment"]],
    )
    weights = f"equal after resampling by weight, within each chain, systematic, seed {RESAMPLING_SEED}"
    return {
        "inference_library": "sgmcmc-bench",
        **{name: value or "unknown" for name, value in made.items()},
        **{name: done[0][name] for name in names},
        "chains_per_seed": done[0]["chains"],
        "seeds": [row["seed"] for row in done],
        "run_keys": [row["run_key"] for row in done],
        "weights": weights if weighted else "equal",
        "left_out": "; ".join(f"seed {row['seed']}: {row['status']}" for row in rows if row not in done),
    }


def _predictions(row: Row, theta: NDArray[np.float32], registry: Registry, test_rows: int) -> NDArray[np.float32]:
    """Return the predicted probabilities (chains, n, rows, classes) of networks with weights theta (chains, n, D)."""
    import torch

    offer = registry.find("tasks", row["task"])
    if source_hash(offer.target) != row["task_source"]:
        raise DataError(f"the code of task {row['task']} has changed since {_name(row)}; repeat the run")
    task = instance(offer.target, json.loads(row["task_params"]))
    streams = [Streams(row["seed"], chain, (row["task"],)) for chain in range(row["chains"])]
    problem, everyone = task.build(streams, "cpu"), slice(0, row["chains"])
    if not hasattr(problem, "predict") or getattr(problem, "buffers", theta[:, 0, :0]).shape[1]:
        raise UsageError(
            f"{row['task']} is a network whose function values cannot be made from its weights alone: it has running "
            "statistics, or does not say what it predicts"
        )
    found = []
    for draw in torch.from_numpy(theta).to(getattr(torch, task.dtype)).unbind(1):
        parts, missing = [], test_rows
        for logs in problem.predict(draw, everyone, "test"):
            parts.append(logs[:, :missing].exp())
            missing -= parts[-1].shape[1]
            if not missing:
                break
        found.append(torch.cat(parts, 1).numpy().astype(np.float32))
    return np.stack(found, axis=1)
