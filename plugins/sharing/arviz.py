"""The draws of runs that differ only in their seed as an xarray DataTree for ArviZ; docs/python.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import DataError, Registry, UsageError
from harness.reports import Store
from harness.results import Status
from harness.runs import instance, source_hash, task_facts
from harness.tasks import Streams

if TYPE_CHECKING:
    from numpy.typing import NDArray

Row = Mapping[str, Any]
"""A row of the view `result`."""


def to_arviz(store: Store, rows: Sequence[Row], registry: Registry, test_rows: int, read: Callable[[Row], Any]) -> Any:
    """Return the draws of runs that differ only in their seed. `read` returns the `Draws` of one; see `Results`."""
    try:
        import arviz_base
    except ImportError as error:
        raise UsageError("to_arviz needs arviz-base; pip install 'sgmcmc-bench[arviz]'") from error
    done = [row for row in rows if row["status"] == Status.DONE]
    if not done:
        raise UsageError(f"{_name(rows[0])}: no run is done, they are {', '.join({row['status'] for row in rows})}")
    draws = list(map(read, done))
    steps = draws[0].steps
    if any(not np.array_equal(steps, other.steps) for other in draws):
        raise UsageError(f"{_name(rows[0])}: the seeds kept draws of different steps; choose one by seed=")
    weighted = any(one.weighted for one in draws)
    values = [one.resampled() if weighted else one.draws for one in draws]
    name, dims = "theta", ["theta_dim"]
    if _is_network(rows[0], registry):
        values = [_predictions(row, theta, registry, test_rows) for row, theta in zip(done, values, strict=True)]
        name, dims = "probability", ["row", "class"]
    weights = f"equal after resampling by weight, {draws[0].resampling}" if weighted else "equal"
    about = {**_attributes(rows, store), "weights": weights}
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


def _attributes(rows: Sequence[Row], store: Store) -> dict[str, Any]:
    """Return the attributes of the runs in types that netCDF can store: texts, numbers and lists of them."""
    done = [row for row in rows if row["status"] == Status.DONE]
    names = ("method", "task", "task_version", "protocol", "budget", "steps", "group_key")
    (versions,) = store.rows(
        "select bench as inference_library_version, torch, python from environment where environment = ?",
        [done[-1]["environment"]],
    )
    return {
        "inference_library": "sgmcmc-bench",
        **{name: value or "unknown" for name, value in versions.items()},
        **{name: done[0][name] for name in names},
        "chains_per_seed": done[0]["chains"],
        "seeds": [row["seed"] for row in done],
        "run_keys": [row["run_key"] for row in done],
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
    probabilities = []
    for draw in torch.from_numpy(theta).to(getattr(torch, task.dtype)).unbind(1):
        parts, missing = [], test_rows
        for logs in problem.predict(draw, everyone, "test"):
            parts.append(logs[:, :missing].exp())
            missing -= parts[-1].shape[1]
            if not missing:
                break
        probabilities.append(torch.cat(parts, 1).numpy().astype(np.float32))
    return np.stack(probabilities, axis=1)


def _name(row: Row) -> str:
    return f"{row['method']} on {row['task']}@{row['protocol']}, {row['budget']}, {row['chains']} chains"
