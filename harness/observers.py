"""What every observer of a task with a truth does: errors of moments, and the curves that rankings are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.diagnostics import LowError, Moments, RunningMoments, mean_error, variance_ratio
from harness.task import Metric, Observer, Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.schedule import Trajectory
    from harness.task import Cost, Truth

    Array = NDArray[np.float64]
    Curve = tuple[Array, Array]

POINTS = 200


class MomentErrors:
    """Errors of the running moments of one run against the truth at T = 1, whatever the run's own temperature.

    Curves, x being the cost in data passes (burn-in included) at about 200 log-spaced draws, y (C, n):
    b2_z_max, b2_z_mean, b2_z2_max, b2_z2_mean, and b2_x_*, b2_x2_* (see `harness.diagnostics.LowError`).
    Curves, x being the coordinate: mean_error and variance_ratio (1, D), chains pooled, the error signed and in true
    sds; chain_error_z and chain_error_z2 (C, D), signed errors of each chain's averages in sds of z and of z^2.
    """

    def __init__(self, truth: Truth, trajectory: Trajectory, cost: Cost) -> None:
        self.moments = Moments(truth.mean, truth.sd, truth.z3, truth.z4)
        self.grid = draw_grid(trajectory)
        self.cost = cost.after(steps_of_draws(trajectory, self.grid).astype(np.float64))
        self.low_error = LowError(self.moments, self.grid)
        self.running = RunningMoments()

    def update(self, draws: Array, weights: Array) -> None:
        """Add kept draws (B, C, D) with weights (B, C)."""
        self.low_error.update(draws, weights)
        self.running.update(draws, weights)

    def metrics(self) -> dict[str, float | None]:
        """mean_error, the largest over the coordinates, and variance_ratio, the one farthest from 1 as a factor."""
        error, ratio = self._pooled()
        with np.errstate(divide="ignore"):
            worst = np.abs(np.log(ratio)).argmax()
        return {"mean_error": finite_or_none(np.abs(error).max()), "variance_ratio": finite_or_none(ratio[worst])}

    def curves(self) -> dict[str, Curve]:
        """All curves of the class docstring."""
        error, ratio = self._pooled()
        final = self.low_error.final_errors()
        coordinate = np.arange(self.moments.dim, dtype=np.float64)
        by_coordinate = {
            "mean_error": error[None],
            "variance_ratio": ratio[None],
            "chain_error_z": final.z,
            "chain_error_z2": final.z2,
        }
        return {name: (self.cost, y) for name, y in self.low_error.curves().items()} | {
            name: (coordinate, y) for name, y in by_coordinate.items()
        }

    def _pooled(self) -> tuple[Array, Array]:
        mean, variance = self.running.pooled()
        with np.errstate(over="ignore", invalid="ignore"):
            return mean_error(mean, self.moments), variance_ratio(variance, self.moments)

    def state(self) -> dict[str, Tensor]:
        """Everything that `load` needs."""
        return to_tensors({"low_error": self.low_error.state(), "running": self.running.state()})

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state`."""
        self.low_error.load(from_tensors(state, "low_error"))
        self.running.load(from_tensors(state, "running"))


MOMENT_METRICS = (
    Metric("mean_error", "min", "sd", "largest error of a mean over the coordinates, T = 1"),
    Metric("variance_ratio", "target", "1", "sample over true variance, worst coordinate, T = 1", target=1.0),
)
"""What `MomentObserver` reports: a task that uses it lists these among its metrics."""


class MomentObserver(Observer):
    """The metrics and curves of `MomentErrors`: all that a task with a truth needs to be ranked.

    A task with metrics of its own derives from it and adds to what `observe`, `outcome`, `state` and `load` do.
    """

    def __init__(self, truth: Truth, trajectory: Trajectory, cost: Cost) -> None:
        self.errors = MomentErrors(truth, trajectory, cost)
        self.seen = 0

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        """Add a block of draws."""
        self.errors.update(draws.cpu().numpy(), weights.cpu().numpy())
        self.seen += len(draws)

    def outcome(self) -> Outcome:
        """The metrics `MOMENT_METRICS`, none of which has a value before the first draw, and the curves."""
        if not self.seen:
            return Outcome({metric.name: None for metric in MOMENT_METRICS})
        return Outcome(self.errors.metrics(), self.errors.curves())

    def state(self) -> dict[str, Tensor]:
        """Everything that `load` needs."""
        return self.errors.state() | to_tensors({"moments": {"seen": np.array(self.seen)}})

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state`."""
        self.errors.load(state)
        self.seen = int(from_tensors(state, "moments")["seen"])


def steps_of_draws(trajectory: Trajectory, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The steps, counted from 1, after which so many draws (each 1 or more) were kept."""
    return np.flatnonzero(trajectory.keep)[counts - 1] + 1


def draw_grid(trajectory: Trajectory) -> NDArray[np.int64]:
    """About 200 log-spaced counts of kept draws, from 1 to all of them."""
    return np.unique(np.geomspace(1, np.count_nonzero(trajectory.keep), POINTS).round().astype(np.int64))


def finite_or_none(value: float | None) -> float | None:
    """A metric's value, None where it does not exist."""
    return float(value) if value is not None and math.isfinite(value) else None


def pick(draws: Array, weights: Array, n: int) -> Array:
    """n of the draws (N, D), evenly spaced in cumulative weight (N,): evenly spaced in time where all are equal."""
    total = np.cumsum(weights)
    place = np.searchsorted(total, total[-1] * (np.arange(n) + 0.5) / n)
    return np.asarray(draws[place.clip(max=len(draws) - 1)])


def to_tensors(states: Mapping[str, Mapping[str, NDArray[Any]]]) -> dict[str, Tensor]:
    """The states of several accumulators as one dict of tensors, "accumulator/entry"."""
    import torch

    return {
        f"{owner}/{name}": torch.from_numpy(np.array(value))
        for owner, state in states.items()
        for name, value in state.items()
    }


def from_tensors(state: Mapping[str, Tensor], owner: str) -> dict[str, NDArray[Any]]:
    """The state of one accumulator out of `to_tensors`."""
    prefix = f"{owner}/"
    return {n.removeprefix(prefix): v.numpy().copy() for n, v in state.items() if n.startswith(prefix)}
