"""The draws of runs that differ only in their seed as an xarray DataTree for ArviZ; docs/python.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import Registry, UsageError
from harness.reports import Store
from harness.results import Status
from harness.runs import task_facts
from harness.tasks import Classification, Streams
from plugins.inspection.shown.offers import loaded

if TYPE_CHECKING:
    from numpy.typing import NDArray


Row = Mapping[str, Any]
"""A row of the view `result`."""
DIMS = {"probability": ["row", "class"], "prediction": ["row"]}
"""Names of axes after chain and draw."""


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
    draws = [replace(one, draws=one.resampled()) if weighted else one for one in draws]
    named = _names_functions(rows[0], registry)
    if named:
        values = [one.functions() for one in draws]
    elif _is_network(rows[0], registry):
        values = [_predictions(one, test_rows) for one in draws]
    else:
        values = [{"theta": one.draws} for one in draws]
    posterior = {name: np.concatenate([one[name] for one in values]) for name in values[0]}
    dims = {name: [f"{name}_dim"] if named else DIMS.get(name, [f"{name}_dim"]) for name in posterior}
    weights = f"equal after resampling by weight, {draws[0].resampling}" if weighted else "equal"
    about = {**_attributes(rows, store), "weights": weights}
    tree = arviz_base.from_dict({"posterior": posterior}, dims=dims, attrs={"/": about, "posterior": about})
    seeds = np.repeat([row["seed"] for row in done], rows[0]["chains"])
    tree["posterior"] = tree["posterior"].to_dataset().assign_coords(seed=("chain", seeds), step=("draw", steps))
    return tree


def _is_network(row: Row, registry: Registry) -> bool:
    params = json.loads(row["task_params"])
    offers = [offer for offer in registry.offers("tasks") if offer.name == row["task"]]
    return any(task_facts(offer, params).opaque for offer in offers)


def _names_functions(row: Row, registry: Registry) -> bool:
    offers = [offer for offer in registry.offers("tasks") if offer.name == row["task"]]
    return any(hasattr(loaded(offer), "function_names") for offer in offers)


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


def _predictions(draws: Any, test_rows: int) -> dict[str, NDArray[np.float32]]:
    """Return what networks predict for the first test rows, with the axes (chains, n, rows, ...).

    It is the "probability" of classes, and of other labels the mean "prediction" of each draw.
    """
    import torch

    row, theta, task = draws.run, draws.draws, draws.task()
    streams = [Streams(row["seed"], chain, (row["task"],)) for chain in range(row["chains"])]
    problem, everyone = task.build(streams, "cpu"), slice(0, row["chains"])
    try:
        labels = problem.labels["test"]
    except (AttributeError, KeyError, NotImplementedError):
        labels = None
    if labels is None or not hasattr(problem, "predict") or getattr(problem, "buffers", theta[:, 0, :0]).shape[1]:
        raise UsageError(
            f"{row['task']} is a network whose function values cannot be made from its weights alone: it has running "
            "statistics, or does not say what it predicts"
        )
    likelihood, y = getattr(task, "likelihood", Classification()), labels[:test_rows]
    predictions = []
    for draw in torch.from_numpy(theta).to(getattr(torch, task.dtype)).unbind(1):
        parts, missing = [], test_rows
        for stretch in problem.predict(draw, everyone, "test"):
            parts.append(stretch[:, :missing])
            missing -= parts[-1].shape[1]
            if not missing:
                break
        each = [likelihood.scored(likelihood.moments(one), y)[0] for one in torch.cat(parts, 1)]
        predictions.append(torch.stack(each).numpy().astype(np.float32))
    name = "probability" if isinstance(likelihood, Classification) else "prediction"
    return {name: np.stack(predictions, axis=1)}


def _name(row: Row) -> str:
    return f"{row['method']} on {row['task']}@{row['protocol']}, {row['budget']}, {row['chains']} chains"
