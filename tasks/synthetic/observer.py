"""The observer of a mixture: modes, masses and spreads, streamed in bounded memory."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from harness import diagnostics
from harness.tasks import (
    MomentErrors,
    Observer,
    Outcome,
    draw_grid,
    finite_or_none,
    from_tensors,
    pick,
    steps_of_draws,
    to_tensors,
)
from tasks.synthetic.modes import ModeCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, Truth
    from tasks.synthetic.mixture import MixtureTask

    Array = NDArray[np.float64]

SAMPLE = 500
"""Draws that the Wasserstein distance compares; its time grows with the cube."""

BASELINE_SETS = 5

REFERENCE_SEED = 0
"""Of the exact draws. All runs are compared with the same ones."""


class MixtureObserver(Observer):
    """Metrics of `mixture_metrics`, the curves of `MomentErrors`, modes_covered (1, n) over steps, and
    within_mode_ratio (1, 1), the variance within a mode over that of exact draws.

    Of the draws themselves at most about 2,000 are kept, evenly spaced.
    """

    def __init__(self, task: MixtureTask, chains: int, trajectory: Trajectory, cost: Cost) -> None:
        self.task = task
        self.errors = MomentErrors(truth(task), trajectory, cost)
        self.modes = ModeCounts(task.means, task.radius, task.variance)
        self.grid = draw_grid(trajectory)
        self.steps = steps_of_draws(trajectory, self.grid).astype(np.float64)
        self.covered = np.full(len(self.grid), np.nan)
        self.stride = max(1, int(np.count_nonzero(trajectory.keep)) * chains // (4 * SAMPLE))
        self.thinned = np.empty((0, chains, task.dim()))
        self.thinned_weights = np.empty((0, chains))
        self.seen = 0

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        x, w = draws.cpu().numpy(), weights.cpu().numpy()
        self.errors.update(x, w)
        first = -self.seen % self.stride
        self.thinned = np.concatenate([self.thinned, x[first :: self.stride]])
        self.thinned_weights = np.concatenate([self.thinned_weights, w[first :: self.stride]])
        points = np.flatnonzero((self.grid > self.seen) & (self.grid <= self.seen + len(x)))
        start = 0
        for point in points:
            stop = int(self.grid[point]) - self.seen
            self.modes.update(x[start:stop], w[start:stop], steps[start:stop])
            self.covered[point] = self.modes.modes_covered(self.task.count)
            start = stop
        self.modes.update(x[start:], w[start:], steps[start:])
        self.seen += len(x)

    def outcome(self) -> Outcome:
        if not self.seen:
            return Outcome({metric.name: None for metric in self.task.metrics})
        modes = self.modes
        values: dict[str, float | None] = {
            "modes_covered": modes.modes_covered(self.task.count),
            "mode_mass_tv": modes.mode_mass_tv(self.task.weights),
            "within_mode_covariance_ratio": modes.within_mode_variance_ratio(),
            "share_within_r": modes.share_within_r(),
            "last_mode_first_visit": modes.last_mode_first_visit(),
            "wasserstein2": self._wasserstein2(),
            "wasserstein2_baseline": baseline(self.task),
            **self.errors.metrics(),
        }
        within = modes.within_mode_variance_ratio() / self._exact_within()
        curves = {
            "modes_covered": (self.steps, self.covered[None].copy()),
            "within_mode_ratio": (np.zeros(1), np.array([[within]])),
        }
        return Outcome({name: finite_or_none(value) for name, value in values.items()}, curves | self.errors.curves())

    def _exact_within(self) -> float:
        targets = {metric.name: metric.target for metric in self.task.metrics}
        return targets["within_mode_covariance_ratio"] or 1.0

    def _wasserstein2(self) -> float | None:
        flat, weights = self.thinned.reshape(-1, self.task.dim()), self.thinned_weights.ravel()
        chosen = pick(flat, weights, SAMPLE)
        with np.errstate(over="ignore"):
            if not np.isfinite(np.square(chosen).sum()):
                return None
        return diagnostics.wasserstein2(chosen, exact_draws(self.task, REFERENCE_SEED))

    def state(self) -> dict[str, Tensor]:
        arrays = {
            "thinned": self.thinned,
            "thinned_weights": self.thinned_weights,
            "covered": self.covered,
            "seen": np.array(self.seen),
        }
        return self.errors.state() | to_tensors({"modes": self.modes.state(), "own": arrays})

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.errors.load(state)
        self.modes.load(from_tensors(state, "modes"))
        arrays = from_tensors(state, "own")
        self.thinned, self.thinned_weights = arrays["thinned"], arrays["thinned_weights"]
        self.covered, self.seen = arrays["covered"], int(arrays["seen"])


@functools.cache
def truth(task: MixtureTask) -> Truth:
    """The same for all runs of a block: its quantiles take as long as a smoke run."""
    return task.truth()


def exact_draws(task: MixtureTask, seed: int) -> Array:
    """`SAMPLE` exact draws (n, D), the same for every run."""
    return task.sample(SAMPLE, np.random.default_rng(seed))


@functools.cache
def baseline(task: MixtureTask) -> float:
    """The mean Wasserstein-2 distance of other exact draws to those that the runs are compared with."""
    reference = exact_draws(task, REFERENCE_SEED)
    others = (exact_draws(task, REFERENCE_SEED + 1 + k) for k in range(BASELINE_SETS))
    return float(np.mean([diagnostics.wasserstein2(other, reference) for other in others]))
