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


def try_model(problem: Problem, theta: torch.Tensor) -> None:
    """Compute outputs and energy of chain 0 at theta (C, D); raise `DataError` or `PluginError` if that fails."""
    problem = getattr(problem, "inner", problem)  # of a moved one
    if not isinstance(problem, DataProblem):
        return
    carried = {name: leaf.clone() for name, leaf in problem.state().items()}
    task, owner, one, outputs = problem.task, type(problem.task).__name__, theta[:1], theta[:1, None]
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
            classes = outputs.shape[-1]
            for part, label in {"train": problem.arrays["label"], **problem.labels}.items():
                row = int(label.argmax())
                what = f"row {row} is {label[row]}, but the model has {classes} outputs, for 0 ... {classes - 1}"
                require_data(label[row] < classes, f"{owner}.arrays({part!r}): label", what)
        with explained(f"{owner}: the energy of {short} rows, the fewest of a batch,", {"theta": one}):
            problem.energy(one, batch)


def try_observer(problem: Problem, theta: torch.Tensor, trajectory: Trajectory, cost: Cost) -> None:
    """Observe draws near theta (C, D) of one run on few rows; raise `DataError` or `PluginError` if that fails."""
    few = problem.first_rows(8) if isinstance(problem, NetworkProblem) else problem
    steps = np.flatnonzero(trajectory.keep)[:2] + 1
    draws = theta + 1e-3 * torch.arange(len(steps)).to(theta)[:, None, None]
    what = f"the observer of {type(getattr(problem, 'task', problem)).__name__}"
    with explained(what, {"draws": draws}), warnings.catch_warnings(action="ignore"):
        observer = few.observer(slice(0, len(theta)), trajectory, cost)
        observer.observe(draws, torch.ones_like(draws[:, :, 0]), steps)
        [*map(finite_or_none, observer.outcome().metrics.values())]
