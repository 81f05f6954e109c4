"""A trial, before the first step, of what a run will do: outputs, the shortest batch, draws, the metrics."""

from __future__ import annotations

import warnings

import numpy as np
import torch

from harness.contracts.arrays import explained, require_data
from harness.contracts.network import NetworkProblem
from harness.contracts.observers import finite_or_none
from harness.contracts.posterior import DataProblem
from harness.contracts.schedule import Trajectory
from harness.contracts.task import Cost, Problem

ROWS = 8
"""Most rows of each set of a network that the trial of an observer uses."""


def try_model(problem: Problem, theta: torch.Tensor) -> None:
    """Compute the outputs and the energy of a model of data, for chain 0 at theta (C, D), on the shortest batch.

    Raise `DataError` if a label is not below the number of outputs, and `PluginError` if a function of the task fails.
    """
    if not isinstance(problem, DataProblem):
        return
    task, carried = problem.task, {name: leaf.clone() for name, leaf in problem.state().items()}
    owner, one, outputs = type(task).__name__, theta[:1], theta[:1, None]
    short = (problem.streams[0].order != "replaced" and problem.terms % task.batch_terms()) or 2
    batch = {name: leaf[0, :1, :short] for name, leaf in problem.draw_batches(1).items()}
    problem.load(carried)
    with torch.no_grad():
        if isinstance(problem, NetworkProblem):
            x = next(problem.stretches("train", 2))
            with explained(f"{owner}.network", {"x": x}):
                outputs = problem.outputs(one, slice(0, 1), problem.task.inputs(x))
        elif task.classifies:
            outputs = task.logits(one, problem.rows(slice(0, 1), batch))
        if task.classifies:
            shape = tuple(outputs.shape[1:])
            require_data(len(shape) == 2, owner, f"the outputs of a chain are of shape {shape}, not (rows, classes)")
            for part, label in {"train": problem.arrays["label"], **problem.labels}.items():
                row = int(label.argmax())
                what = f"row {row} is {label[row]}, but the model has {shape[1]} outputs, for 0 ... {shape[1] - 1}"
                require_data(label[row] < shape[1], f"{owner}.arrays({part!r}): label", what)
        with explained(f"{owner}: the energy of {short} rows, the fewest of a batch,", {"theta": one}):
            problem.energy(one, batch)


def try_observer(problem: Problem, theta: torch.Tensor, trajectory: Trajectory, cost: Cost) -> None:
    """Observe draws at and near theta (C, D) of one run, on few rows, and compute every metric.

    Raise `DataError` if the arrays of a set are wrong, and `PluginError` if the observer fails.
    """
    few = problem.first_rows(ROWS) if isinstance(problem, NetworkProblem) else problem
    steps = np.flatnonzero(trajectory.keep)[:2] + 1
    draws = torch.stack([theta + 1e-3 * k for k in range(len(steps))])
    owner = type(getattr(problem, "task", problem)).__name__
    with (
        explained(f"the observer of {owner}", {"draws": draws}),
        warnings.catch_warnings(action="ignore"),
        np.errstate(all="ignore"),
    ):
        observer = few.observer(slice(0, len(theta)), trajectory, cost)
        observer.observe(draws, torch.ones_like(draws[:, :, 0]), steps)
        for value in observer.outcome().metrics.values():
            finite_or_none(value)
