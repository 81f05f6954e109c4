"""Observers of tasks with a truth: errors of moments, and the curves on which rankings are based."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.analysis.diagnostics import (
    DrawSums,
    JointMoments,
    LowError,
    bulk_ess,
    configurational_temperature,
    directional_temperatures,
    pooled_errors,
    rank_normalised_split_rhat,
    reference_ess,
    tail_ess,
)
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


SERIES_METRICS = (
    Metric("paper_ess_median", "max", "draws", "ESS of a chain by true moments, cut at 0.05: median coordinate"),
    Metric("paper_ess_mean", "max", "draws", "the same: mean over coordinates"),
    Metric("ess_bulk", "max", "draws", "rank-normalised ESS of all chains, split, worst coordinate", version=2),
    Metric("ess_tail", "max", "draws", "the same for the 5 % and 95 % quantiles", version=2),
    Metric("rhat", "min", "1", "rank-normalised split R-hat, worst coordinate"),
    *MOMENT_METRICS,
)
"""The metrics that `SeriesObserver` reports."""
TEMPERATURE_METRICS = (
    Metric("temperature", "target", "1", "configurational temperature, mean over directions", target=1.0),
    Metric("temperature_min", "target", "1", "the coldest eigendirection of the Hessian at the mode", target=1.0),
    Metric("temperature_max", "target", "1", "the hottest eigendirection of the Hessian at the mode", target=1.0),
)
"""The metrics that `SeriesObserver` also reports if it is given a gradient."""


class SeriesObserver(MomentObserver):
    """`MomentObserver` with the metrics that need the whole series of draws, which it holds: 8 bytes a number.

    Effective sample sizes and R-hat use the draws in order, without their weights; errors and temperatures use the
    weights. For an ensemble, effective sample sizes and R-hat have no value, because its particles are not a series and
    may depend on each other. The curves are those of `MomentErrors` and chain_ess (C, D), the paper's ESS of each
    chain.

    gradient    draws (n, D) -> grad U (n, D), for temperatures: they pool all chains, and are 1 up to Monte Carlo error
    axes        the directions of temperatures, columns (D, K)
    gradients   the largest number of draws at which the gradient is computed
    """

    def __init__(
        self,
        truth: Truth,
        chains: int,
        trajectory: Trajectory,
        cost: Cost,
        *,
        gradient: Callable[[Array], Array] | None = None,
        axes: Array | None = None,
        gradients: int = 20_000,
    ) -> None:
        super().__init__(truth, trajectory, cost)
        self.gradient, self.axes, self.gradients = gradient, axes, gradients
        kept = int(np.count_nonzero(trajectory.keep))
        self.series = trajectory.particles == 1
        self.draws = np.empty((kept, chains, len(truth.mean)))
        self.weights = np.empty((kept, chains))

    def add(self, draws: Array, weights: Array) -> None:
        """Add draws (B, C, D) with weights (B, C), and keep them."""
        block = slice(self.seen, self.seen + len(draws))
        self.draws[block], self.weights[block] = draws, weights
        super().add(draws, weights)

    def picked(self, n: int) -> Array:
        """Return at most n of the draws of all chains, (n, D), evenly spaced in weight."""
        flat = self.draws[: self.seen].reshape(-1, self.draws.shape[2])
        return pick(flat, self.weights[: self.seen].ravel(), min(len(flat), n))

    def outcome(self) -> Outcome:
        """Return `SERIES_METRICS`, `TEMPERATURE_METRICS` if a gradient is known, and the curves."""
        plain = super().outcome()
        if not self.seen:
            return plain
        values, curves, x = dict(plain.metrics), dict(plain.curves), self.draws[: self.seen]
        centre = self.errors.truth.mean
        if self.gradient is not None and self.axes is not None:
            chosen = self.picked(self.gradients)
            with np.errstate(over="ignore", invalid="ignore"):
                slopes = self.gradient(chosen)
                along = directional_temperatures(chosen, slopes, centre, self.axes)
                values["temperature"] = float(configurational_temperature(chosen, slopes, centre))
            values |= {"temperature_min": along.min(), "temperature_max": along.max()}
        if self.seen >= 4 and self.series:
            chain_ess = reference_ess(x, centre, self.errors.truth.sd)
            curves["chain_ess"] = (np.arange(len(centre), dtype=np.float64), chain_ess)
            values |= {
                "paper_ess_median": np.median(chain_ess, axis=1).mean(),
                "paper_ess_mean": chain_ess.mean(),
                "ess_bulk": bulk_ess(x).min(),
                "ess_tail": tail_ess(x).min(),
                "rhat": rank_normalised_split_rhat(x).max(),
            }
        return Outcome({name: finite_or_none(value) for name, value in values.items()}, curves)

    def state(self) -> dict[str, Tensor]:
        """Return everything that `load` needs."""
        series = {"draws": self.draws[: self.seen], "weights": self.weights[: self.seen]}
        return super().state() | to_tensors({"own": series})

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""
        super().load(state)
        series = from_tensors(state, "own")
        self.draws[: self.seen], self.weights[: self.seen] = series["draws"], series["weights"]


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
