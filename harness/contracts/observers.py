"""Observers of tasks with a truth: errors of moments, and the curves on which rankings are based."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.analysis.diagnostics import DrawSums, JointMoments, LowError, pooled_errors
from harness.contracts.task import Metric, Observer, Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.contracts.schedule import Trajectory
    from harness.contracts.task import Cost
    from harness.contracts.truth import Truth

    Array = NDArray[np.float64]
    Curve = tuple[Array, Array]

POINTS = 200


class MomentErrors:
    """Errors of the running moments of one run against the truth at T = 1, whatever the run's own temperature.

    `curves` returns three groups of curves.

    x is the cost in data passes (burn-in included) at about 200 log-spaced draws, y (C, n): joint_b2_z_max, _z_mean,
    _z2_max, _z2_mean, and the same with x and x2 in place of z and z2: those of `LowError` along the truth's K
    directions. At the last draw joint_b2_z2_max includes the indicators of the truth's quantiles, if it states them.

    x is an index, y (C, n): joint_error holds the signed errors of each chain's averages at the end, in sds of what is
    averaged: z along the K directions, z^2, and the indicators of the quantiles. chain_error_z (C, D) is the first D of
    these.

    x is an index, y (1, n) for all chains together, used by the gate (`JointMoments`): whitened_mean (D),
    whitened_second (the lower triangle, row by row), and, if the truth states quantiles, distribution_error (K m).
    """

    def __init__(self, truth: Truth, trajectory: Trajectory, cost: Cost) -> None:
        self.truth = truth
        self.sums = DrawSums(truth.mean, truth.covariance, truth.directions, truth.quantiles)
        self.grid = draw_grid(trajectory)
        self.cost = cost.after(steps_of_draws(trajectory, self.grid).astype(np.float64))
        self.low_error = LowError(self.sums, truth.z3, truth.z4, self.grid)
        self.joint = JointMoments(self.sums)

    def update(self, draws: Array, weights: Array) -> None:
        """Add kept draws (B, C, D) with weights (B, C)."""
        self.low_error.update(draws, weights)

    def metrics(self) -> dict[str, float | None]:
        """Return the values of `MOMENT_METRICS`."""
        error, ratio = pooled_errors(self.sums)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            worst = np.abs(np.log(ratio)).argmax()
            joint = (self._errors() ** 2).mean(axis=0).max()
        return {
            "joint_error": finite_or_none(joint),
            "mean_error": finite_or_none(np.abs(error).max()),
            "variance_ratio": finite_or_none(ratio[worst]),
        }

    def curves(self) -> dict[str, Curve]:
        """Return all curves that the class docstring describes."""
        errors, joint, curves = self._errors(), self.joint, self.low_error.curves()
        with np.errstate(over="ignore", invalid="ignore"):
            if self.truth.quantiles is not None:
                shape = np.nan_to_num((joint.chain_errors() ** 2).max(axis=1), nan=np.inf)
                curves["b2_z2_max"][:, -1] = np.maximum(curves["b2_z2_max"][:, -1], shape)
            numbered = {
                "joint_error": errors,
                "chain_error_z": errors[:, : len(self.truth.mean)].copy(),
                "whitened_mean": joint.mean_error()[None],
                "whitened_second": joint.second_moment()[np.tril_indices(len(self.truth.mean))][None],
                "distribution_error": joint.distribution_error()[None],
            }
        return {f"joint_{name}": (self.cost, y) for name, y in curves.items()} | {
            name: (np.arange(y.shape[1], dtype=np.float64), y) for name, y in numbered.items() if y.size
        }

    def _errors(self) -> Array:
        return np.concatenate([self.low_error.final_errors(), self.joint.chain_errors()], axis=1)

    def _parts(self) -> dict[str, LowError | DrawSums]:
        return {"low_error": self.low_error, "sums": self.sums}

    def state(self) -> dict[str, Tensor]:
        """Return everything that `load` needs."""
        return to_tensors({name: part.state() for name, part in self._parts().items()})

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""
        for name, part in self._parts().items():
            part.load(from_tensors(state, name))


MOMENT_METRICS = (
    Metric(
        "joint_error", "min", "1",
        "mean over chains of b2 at the end, worst direction and function: squared bias and variance, T = 1",
    ),
    Metric("mean_error", "min", "sd", "largest error of a mean over the coordinates, T = 1"),
    Metric("variance_ratio", "target", "1", "sample over true variance, worst coordinate, T = 1", target=1.0),
)  # fmt: skip
"""The metrics that `MomentObserver` reports; a task that uses it lists them among its metrics."""


class MomentObserver(Observer):
    """The metrics and curves of `MomentErrors`, which are all that a task with a truth needs to be ranked.

    A task adds metrics that are functions of weighted sums over the draws by passing two functions or by subclassing.

    sums        draws (B, C, D), weights (B, C) -> an array, which is added up over the blocks
    metrics_of  that array -> metrics by name
    """

    def __init__(
        self,
        truth: Truth,
        trajectory: Trajectory,
        cost: Cost,
        sums: Callable[[Array, Array], Array] | None = None,
        metrics_of: Callable[[Array], Mapping[str, float | None]] | None = None,
    ) -> None:
        self.errors = MomentErrors(truth, trajectory, cost)
        self.sums, self.metrics_of = sums, metrics_of
        self.total = np.zeros(())
        self.seen = 0

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        """Add a block of draws."""
        self.add(draws.cpu().numpy(), weights.cpu().numpy())

    def add(self, draws: Array, weights: Array) -> None:
        """Add draws (B, C, D) with weights (B, C)."""
        self.errors.update(draws, weights)
        if self.sums:
            with np.errstate(over="ignore", invalid="ignore"):
                self.total = self.total + self.sums(draws, weights)
        self.seen += len(draws)

    def outcome(self) -> Outcome:
        """Return the task's own metrics, `MOMENT_METRICS` and the curves; nothing before the first draw."""
        if not self.seen:
            return Outcome({})
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            values = self.metrics_of(self.total) if self.metrics_of else {}
        return Outcome({n: finite_or_none(v) for n, v in values.items()} | self.errors.metrics(), self.errors.curves())

    def state(self) -> dict[str, Tensor]:
        """Return everything that `load` needs."""
        return self.errors.state() | to_tensors({"moments": {"seen": np.array(self.seen), "total": self.total}})

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""
        self.errors.load(state)
        moments = from_tensors(state, "moments")
        self.seen, self.total = int(moments["seen"]), moments["total"]


def steps_of_draws(trajectory: Trajectory, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the steps, counted from 1, after which these numbers of draws (each 1 or more) were kept."""
    return np.flatnonzero(trajectory.keep)[counts - 1] + 1


def draw_grid(trajectory: Trajectory) -> NDArray[np.int64]:
    """Return about 200 log-spaced counts of kept draws, from 1 to all of them."""
    return np.unique(np.geomspace(1, np.count_nonzero(trajectory.keep), POINTS).round().astype(np.int64))


def finite_or_none(value: float | None) -> float | None:
    """Return a metric's value, or None if it does not exist or is not finite."""
    return float(value) if value is not None and math.isfinite(value) else None


def pick(draws: Array, weights: Array, n: int) -> Array:
    """Return n of the draws (N, D), evenly spaced in cumulative weight (N,): in time, if all weights are equal."""
    total = np.cumsum(weights)
    index = np.searchsorted(total, total[-1] * (np.arange(n) + 0.5) / n)
    return np.asarray(draws[index.clip(max=len(draws) - 1)])


def to_tensors(states: Mapping[str, Mapping[str, NDArray[Any]]]) -> dict[str, Tensor]:
    """Return the states of several accumulators as one dict of tensors, by "accumulator/entry"."""
    import torch

    return {
        f"{owner}/{name}": torch.from_numpy(np.array(value))
        for owner, state in states.items()
        for name, value in state.items()
    }


def from_tensors(state: Mapping[str, Tensor], owner: str) -> dict[str, NDArray[Any]]:
    """Return the state of one accumulator from a dict that `to_tensors` made."""
    prefix = f"{owner}/"
    return {n.removeprefix(prefix): v.numpy().copy() for n, v in state.items() if n.startswith(prefix)}
