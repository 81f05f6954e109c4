"""The observer of a logistic posterior: it holds the draws of the run, for what needs the whole series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from harness import MomentErrors, Observer, Outcome, diagnostics, finite_or_none, from_tensors, pick, to_tensors
from tasks.regression.laplace import gradient, laplace

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Cost, Trajectory
    from tasks.regression.logistic import Logistic

    Array = NDArray[np.float64]

TEMPERATURE_DRAWS = 20_000
"""Most draws at which the gradient is taken for the temperatures."""


class LogisticObserver(Observer):
    """Metrics of `Logistic`, the curves of `MomentErrors`, and chain_ess (C, D): the paper's ESS of each chain.

    Effective sizes and R-hat are of the draws as they come, whatever their weights; errors and temperatures weigh
    them. Memory: the kept draws of the run, 8 bytes a number.
    """

    def __init__(self, task: Logistic, chains: int, trajectory: Trajectory, cost: Cost) -> None:
        self.task = task
        self.errors = MomentErrors(task.truth(), trajectory, cost)
        kept = int(np.count_nonzero(trajectory.keep))
        self.draws = np.empty((kept, chains, task.dim()))
        self.weights = np.empty((kept, chains))
        self.seen = 0

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        x, w = draws.cpu().numpy(), weights.cpu().numpy()
        self.errors.update(x, w)
        self.draws[self.seen : self.seen + len(x)] = x
        self.weights[self.seen : self.seen + len(x)] = w
        self.seen += len(x)

    def outcome(self) -> Outcome:
        if not self.seen:
            return Outcome({metric.name: None for metric in self.task.metrics})
        values = {**self.errors.metrics(), **self._temperatures()}
        curves = self.errors.curves()
        x = self.draws[: self.seen]
        if self.seen >= 4:
            moments = self.errors.moments
            chain_ess = diagnostics.reference_ess(x, moments.mean, moments.sd)
            curves["chain_ess"] = (np.arange(moments.dim, dtype=np.float64), chain_ess)
            values |= {
                "paper_ess_median": np.median(chain_ess, axis=1).mean(),
                "paper_ess_mean": chain_ess.mean(),
                "ess_bulk": diagnostics.bulk_ess(x).min(),
                "ess_tail": diagnostics.tail_ess(x).min(),
                "rhat": diagnostics.rank_normalised_split_rhat(x).max(),
            }
        return Outcome({m.name: finite_or_none(values.get(m.name)) for m in self.task.metrics}, curves)

    def _temperatures(self) -> dict[str, float | None]:
        """Of all chains together: at T = 1 each is 1 but for Monte Carlo error."""
        flat = self.draws[: self.seen].reshape(-1, self.task.dim())
        weights = self.weights[: self.seen].ravel()
        chosen = pick(flat, weights, min(len(flat), TEMPERATURE_DRAWS))
        design, centre = self.task.design(), self.errors.moments.mean
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = gradient(design, chosen)
            along = diagnostics.directional_temperatures(chosen, slopes, centre, laplace(design).eigenvectors)
            mean = diagnostics.configurational_temperature(chosen, slopes, centre)
        return {"temperature": float(mean), "temperature_min": along.min(), "temperature_max": along.max()}

    def state(self) -> dict[str, Tensor]:
        own = {
            "draws": self.draws[: self.seen],
            "weights": self.weights[: self.seen],
        }
        return self.errors.state() | to_tensors({"own": own})

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.errors.load(state)
        own = from_tensors(state, "own")
        self.seen = len(own["draws"])
        self.draws[: self.seen], self.weights[: self.seen] = own["draws"], own["weights"]
