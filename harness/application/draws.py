"""The kept draws of finished runs, as arrays."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness.reporting.commands import run_command
from harness.runs.plugin_metadata import instance, weighs
from harness.runs.source import source_hash
from harness.system.errors import DataError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.contracts.registry import Registry

Row = Mapping[str, Any]
"""A row of the view `result`."""
RESAMPLING_SEED = 0
"""The seed of the resampling of weighted draws."""
LISTED = 8
"""Most runs that a message lists."""


@dataclass(frozen=True, eq=False, repr=False)
class Draws:
    """The kept draws of one run.

    draws    (chains, n, D), float32
    steps    (n,), the number of the step that made each draw, counted from 1
    weights  (chains, n), with mean 1; all 1 if sampler and schedule weight draws equally
    run      the settings and status of the run: its row of `Results.runs`
    task     returns the task of the run; `DataError` if its code has changed
    """

    draws: NDArray[np.float32]
    steps: NDArray[np.int64]
    weights: NDArray[np.float64]
    run: Row
    task: Callable[[], Any]
    resampling: ClassVar[str] = f"within each chain, systematic, seed {RESAMPLING_SEED}"

    def __repr__(self) -> str:
        chains, n, dim = self.draws.shape
        return f"Draws of {_name(self.run)}: {chains} chains of {n} draws in {dim} dimensions"

    @property
    def weighted(self) -> bool:
        """Whether the draws have different weights."""
        return bool((self.weights != 1).any())

    def functions(self) -> dict[str, NDArray[np.float64]]:
        """Return the task's functions of the draws by name, (chains, n, k): parameters with constraints, for example.

        `UsageError` for a task whose parameters have no names.
        """
        import torch

        task, flat = self.task(), self.draws.reshape(-1, self.draws.shape[2])
        if not hasattr(task, "function_names"):
            raise UsageError(f"{self.run['task']} names no functions of theta; `draws` has theta itself")
        values = task.functions(torch.from_numpy(flat).double())
        return {name: each.reshape(*self.draws.shape[:2], -1).numpy() for name, each in values.items()}

    def resampled(self) -> NDArray[np.float32]:
        """Return draws (chains, n, D) of equal weight, resampled in each chain according to the weights, in order.

        Systematic resampling with a fixed seed: a draw with k times the mean weight of its chain is taken k times, up
        or down by less than one. The chains' total weights are lost: afterwards all chains have the same weight.
        """
        chains, n, _ = self.draws.shape
        ends = np.cumsum(self.weights, axis=1)
        offsets = np.random.default_rng(RESAMPLING_SEED).random((chains, 1))
        places = (np.arange(n) + offsets) / n * ends[:, -1:]
        index = [np.searchsorted(sums, wanted, side="right") for sums, wanted in zip(ends, places, strict=True)]
        return np.stack([chain[np.minimum(i, n - 1)] for chain, i in zip(self.draws, index, strict=True)])


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


def read(results: Path, registry: Registry, row: Row) -> Draws:
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
    weights = weights.T / weights.mean()
    return Draws(draws.swapaxes(0, 1), steps, weights, row, functools.partial(task_of, registry, row))


def task_of(registry: Registry, row: Row) -> Any:
    """Return the task of a run with its settings. `DataError` if its code has changed since the run."""
    offer = registry.find("tasks", row["task"])
    if source_hash(offer.target) != row["task_source"]:
        raise DataError(f"the code of task {row['task']} has changed since {_name(row)}; repeat the run")
    return instance(offer.target, json.loads(row["task_params"]))


def _weighs(row: Row, registry: Registry) -> bool:
    """Return whether the draws of a run have weights, according to its schedule's settings or the installed sampler."""
    if json.loads(row["schedule_params"]).get("weights", "equal") != "equal":
        return True
    offers = [offer for offer in registry.offers("samplers") if offer.name == row["sampler"]]
    return any(weighs(offer) for offer in offers)
