"""The observer of the logistic regressions: errors of moments, effective sizes, R-hat and temperatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from harness import diagnostics
from harness.tasks import (
    MOMENT_METRICS,
    Metric,
    MomentObserver,
    Outcome,
    finite_or_none,
    from_tensors,
    pick,
    to_tensors,
)
from tasks.regression.temperature import configurational_temperature, directional_temperatures

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, Truth

    Array = NDArray[np.float64]


SERIES_METRICS = (
    Metric("paper_ess_median", "max", "draws", "ESS of a chain by true moments, cut at 0.05: median coordinate"),
    Metric("paper_ess_mean", "max", "draws", "the same: mean over coordinates"),
    Metric("ess_bulk", "max", "draws", "rank-normalised ESS of all chains, split, worst coordinate", version=2),
    Metric("ess_tail", "max", "draws", "the same for the 5 % and 95 % quantiles", version=3),
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
                "ess_bulk": diagnostics.bulk_ess(x).min(),
                "ess_tail": diagnostics.tail_ess(x).min(),
                "rhat": diagnostics.rank_normalised_split_rhat(x).max(),
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


def reference_ess(draws: ArrayLike, mean: ArrayLike, sd: ArrayLike, cut: float = 0.05) -> Array:
    """Return the ESS of one chain with the *truth's* mean and sd, as the papers report it.

        ESS = n / (1 + 2 sum_s (1 - s/n) rho_s),
        rho_s = sum_{t > s} (x_t - mean)(x_{t-s} - mean) / (sd^2 (n - s)),

    where the sum over s = 1, 2, ... stops before the first rho_s < cut. draws: (n, ...), one or more chains and
    coordinates; mean and sd broadcast against the trailing axes. Result: draws.shape[1:], in draws. It is at most n: a
    value of n is saturation and must be compared as censored. A chain frozen at the mean scores n, so rank this number
    only behind the gate of the leaderboards. NaN if a draw is not finite. Raises ValueError for fewer than 2 draws or
    an sd that is not positive.

    Source: Hoffman and Gelman (2014), whom the papers cite.
    """
    x = np.asarray(draws, dtype=np.float64)
    if x.ndim < 1 or len(x) < 2:
        raise ValueError(f"draws must have shape (n, ...) with n >= 2, got {x.shape}")
    if (np.asarray(sd) <= 0).any():
        raise ValueError("sd must be positive")
    with np.errstate(over="ignore", invalid="ignore"):
        z = (x - np.asarray(mean)) / np.asarray(sd)
        finite = np.isfinite(z * z).all(axis=0)
        products = diagnostics.lagged_products(np.where(finite, z, 0.0))
    lags = np.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1))
    rho = products / (len(x) - lags)
    return np.where(finite, diagnostics.ess_of_autocorrelation(rho, cut), np.nan)
