"""What every observer of a task with a truth does: errors of moments, and the curves that rankings are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.analysis.diagnostics import (
    DrawSums,
    JointMoments,
    LowError,
    Moments,
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

    Curves, x being the cost in data passes (burn-in included) at about 200 log-spaced draws, y (C, n): joint_b2_z_max,
    _z_mean, _z2_max, _z2_mean, and _x_*, _x2_*: `LowError` along the truth's K directions. At the
    last of them joint_b2_z2_max is over the indicators of the truth's quantiles too, where it states them. Curves y (C,
    n): joint_error, the signed errors of each chain's averages at the end, in sds of what is averaged: z along the K
    directions, z^2, and the indicators of the quantiles; chain_error_z (C, D) is the first of them. Curves of all
    chains together, y (1, n), for the gate (`JointMoments`): whitened_mean (D), whitened_second
    (the lower triangle, row by row), and, where the truth states quantiles, distribution_error (K m).
    """

    def __init__(self, truth: Truth, trajectory: Trajectory, cost: Cost) -> None:
        self.truth = truth
        self.sums = DrawSums(truth.mean, truth.covariance, truth.directions, truth.quantiles)
        self.grid = draw_grid(trajectory)
        self.cost = cost.after(steps_of_draws(trajectory, self.grid).astype(np.float64))
        moments = Moments(truth.directions @ truth.mean, self.sums.sd, truth.z3, truth.z4)
        self.low_error = LowError(self.sums, moments, self.grid)
        self.joint = JointMoments(self.sums)

    def update(self, draws: Array, weights: Array) -> None:
        """Add kept draws (B, C, D) with weights (B, C)."""
        self.low_error.update(draws, weights)

    def metrics(self) -> dict[str, float | None]:
        """Those of `MOMENT_METRICS`."""
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
        """All curves of the class docstring."""
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
        final = self.low_error.final_errors()
        return np.concatenate([final.z, final.z2, self.joint.chain_errors()], axis=1)

    def _parts(self) -> dict[str, LowError | DrawSums]:
        return {"low_error": self.low_error, "sums": self.sums}

    def state(self) -> dict[str, Tensor]:
        """Everything that `load` needs."""
        return to_tensors({name: part.state() for name, part in self._parts().items()})

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state`."""
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
"""What `MomentObserver` reports: a task that uses it lists these among its metrics."""


class MomentObserver(Observer):
    """The metrics and curves of `MomentErrors`: all that a task with a truth needs to be ranked.

    A task adds metrics that are functions of weighted sums over the draws by two functions, or derives from it.

    sums  draws (B, C, D), weights (B, C) -> an array, added up over the blocks
    own   that array -> metrics by name
    """

    def __init__(
        self,
        truth: Truth,
        trajectory: Trajectory,
        cost: Cost,
        sums: Callable[[Array, Array], Array] | None = None,
        own: Callable[[Array], Mapping[str, float | None]] | None = None,
    ) -> None:
        self.errors = MomentErrors(truth, trajectory, cost)
        self.sums, self.own = sums, own
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
        """The task's own metrics, `MOMENT_METRICS` and the curves; nothing before the first draw."""
        if not self.seen:
            return Outcome({})
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            own = self.own(self.total) if self.own else {}
        return Outcome({n: finite_or_none(v) for n, v in own.items()} | self.errors.metrics(), self.errors.curves())

    def state(self) -> dict[str, Tensor]:
        """Everything that `load` needs."""
        return self.errors.state() | to_tensors({"moments": {"seen": np.array(self.seen), "total": self.total}})

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state`."""
        self.errors.load(state)
        own = from_tensors(state, "moments")
        self.seen, self.total = int(own["seen"]), own["total"]


SERIES_METRICS = (
    Metric("paper_ess_median", "max", "draws", "ESS of a chain by true moments, cut at 0.05: median coordinate"),
    Metric("paper_ess_mean", "max", "draws", "the same: mean over coordinates"),
    Metric("ess_bulk", "max", "draws", "rank-normalised ESS of all chains, split, worst coordinate", version=2),
    Metric("ess_tail", "max", "draws", "the same for the 5 % and 95 % quantiles", version=2),
    Metric("rhat", "min", "1", "rank-normalised split R-hat, worst coordinate"),
    *MOMENT_METRICS,
)
"""What `SeriesObserver` reports."""
TEMPERATURE_METRICS = (
    Metric("temperature", "target", "1", "configurational temperature, mean over directions", target=1.0),
    Metric("temperature_min", "target", "1", "the coldest eigendirection of the Hessian at the mode", target=1.0),
    Metric("temperature_max", "target", "1", "the hottest eigendirection of the Hessian at the mode", target=1.0),
)
"""What `SeriesObserver` reports, the second ones where it is told of gradients."""


class SeriesObserver(MomentObserver):
    """`MomentObserver`, and what needs the whole series of draws, which it holds: 8 bytes a number.

    Effective sizes and R-hat are of the draws as they come, whatever their weights; errors and temperatures weigh
    them. For an ensemble effective sizes and R-hat have no value: its particles are no series and may depend on each
    other. Curves are those of `MomentErrors`, and chain_ess (C, D): the paper's ESS of each chain.

    gradient    draws (n, D) -> grad U (n, D), for temperatures: of all chains together, 1 but for Monte Carlo error
    axes        the directions of temperatures, columns (D, K)
    gradients   most draws at which the gradient is taken
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
        """Hold the draws."""
        block = slice(self.seen, self.seen + len(draws))
        self.draws[block], self.weights[block] = draws, weights
        super().add(draws, weights)

    def picked(self, n: int) -> Array:
        """At most n of the draws of all chains (n, D), evenly spaced in weight."""
        flat = self.draws[: self.seen].reshape(-1, self.draws.shape[2])
        return pick(flat, self.weights[: self.seen].ravel(), min(len(flat), n))

    def outcome(self) -> Outcome:
        """`SERIES_METRICS`, `TEMPERATURE_METRICS` where gradients are known, and the curves."""
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
        """Everything that `load` needs."""
        own = {"draws": self.draws[: self.seen], "weights": self.weights[: self.seen]}
        return super().state() | to_tensors({"own": own})

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state`."""
        super().load(state)
        own = from_tensors(state, "own")
        self.draws[: self.seen], self.weights[: self.seen] = own["draws"], own["weights"]


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
