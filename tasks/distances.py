"""Distances of whole distributions: of thinned draws from exact ones, and from the potential by its gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from harness import diagnostics
from harness.tasks import (
    Metric,
    Observer,
    Outcome,
    Problem,
    Streams,
    finite_or_none,
    from_tensors,
    to_tensors,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import MomentObserver
    from tasks.synthetic.observer import MixtureObserver

    Array = NDArray[np.float64]
    Points = Callable[[Array], tuple[Array, Array]]

DRAWS, ALL_DRAWS, FEWEST = 400, 1_600, 20
"""The most draws of a chain that distances use; of all chains of a run, unless each would have fewer than the last."""
EXACT = 2_000

STEIN_DISCREPANCY = Metric(
    "kernel_stein_discrepancy", "target", "1",
    "squared kernel Stein discrepancy, kernel (1 + |x - y|^2)^(-1/2) in coordinates whitened by the truth's covariance,"
    " of draws at T = 1 only; U-statistic, 0 for exact draws on average; blind to the masses of modes that are far "
    "apart; mean over chains, n <= 400 draws of each; n gradients and n^2 pairs a chain, which no run pays for",
    target=0.0,
)  # fmt: skip
ENERGY_DISTANCE = Metric(
    "energy_distance", "target", "1",
    "squared energy distance to 2,000 exact draws, in coordinates whitened by the truth's covariance, of draws at "
    "T = 1 only; without pairs of a draw with itself; exact draws score 0 on average, within 0.001, as all runs are "
    "compared with the same 2,000; mean over chains, n <= 400 draws of each; n (n + 2,000) distances a chain",
    target=0.0,
)  # fmt: skip
DISTANCES = (ENERGY_DISTANCE, STEIN_DISCREPANCY)
"""The metrics that `DistanceObserver` adds, the first one if it is given exact draws."""


class DistanceObserver(Observer):
    """An observer that adds `DISTANCES` to the metrics of another one, `moments`.

    It keeps min(400, 1600 / C) draws of each chain, one from a random place, the same in every run, in each of as many
    equal parts of the kept draws. So it does not follow the periods of cycles or of an ensemble's particles. The draws
    count with their weights. The metrics have no value if a draw is kept at T != 1.

    points  theta (n, D) -> the coordinates (n, D) of the truth, and the gradient of -log pi with respect to them
    exact   exact draws (m, D) in these coordinates, if they exist
    """

    def __init__(
        self,
        moments: MomentObserver | MixtureObserver,
        chains: int,
        trajectory: Trajectory,
        points: Points,
        exact: Array | None = None,
    ) -> None:
        self.moments, self.truth, self.points, self.exact = moments, moments.errors.truth, points, exact
        self.posterior = bool((trajectory.temperature[trajectory.keep] == 1).all())
        self.places = places(int(np.count_nonzero(trajectory.keep)), max(FEWEST, min(DRAWS, ALL_DRAWS // chains)))
        self.draws = np.empty((len(self.places), chains, len(self.truth.mean)))
        self.weights = np.empty((len(self.places), chains))
        self.seen = self.filled = 0

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        self.moments.observe(draws, weights, steps)
        chosen = self.places[self.filled : np.searchsorted(self.places, self.seen + len(draws))] - self.seen
        block = slice(self.filled, self.filled + len(chosen))
        self.draws[block], self.weights[block] = draws[chosen].cpu().numpy(), weights[chosen].cpu().numpy()
        self.seen, self.filled = self.seen + len(draws), block.stop

    def outcome(self) -> Outcome:
        plain = self.moments.outcome()
        if not self.filled:
            return plain
        values = {metric.name: np.nan for metric in DISTANCES[self.exact is None :]}
        if self.posterior:
            values |= self._distances(self.draws[: self.filled], self.weights[: self.filled])
        return replace(plain, metrics={**plain.metrics, **{n: finite_or_none(v) for n, v in values.items()}})

    def _distances(self, draws: Array, weights: Array) -> dict[str, float]:
        root = np.linalg.cholesky(self.truth.covariance)
        with np.errstate(all="ignore"):
            points, slopes = self.points(draws.reshape(-1, draws.shape[2]))
            white = np.linalg.solve(root, points.T).T.reshape(draws.shape)
            values = {
                STEIN_DISCREPANCY.name: diagnostics.kernel_stein_discrepancy(
                    white, (slopes @ root).reshape(draws.shape), weights
                )
            }
            if self.exact is not None:
                exact = np.linalg.solve(root, self.exact.T).T
                values[ENERGY_DISTANCE.name] = diagnostics.energy_distance(white, weights, exact)
        return {name: float(value.mean()) for name, value in values.items()}

    def state(self) -> dict[str, Tensor]:
        thinned = {
            "draws": self.draws[: self.filled],
            "weights": self.weights[: self.filled],
            "seen": np.array(self.seen),
        }
        return self.moments.state() | to_tensors({"distances": thinned})

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.moments.load(state)
        unknown = {name: np.full_like(getattr(self, name), np.nan) for name in ("draws", "weights")}
        thinned = from_tensors(state, "distances") or {**unknown, "seen": np.array(0)}  # of a version without distances
        self.seen, self.filled = int(thinned["seen"]), len(thinned["draws"])
        self.draws[: self.filled], self.weights[: self.filled] = thinned["draws"], thinned["weights"]


def places(kept: int, most: int) -> NDArray[np.int64]:
    """Which of `kept` draws are used: all, or one at random in each of `most` equal parts, in rising order."""
    ends = np.arange(min(kept, most) + 1) * kept // min(kept, most)
    return np.random.default_rng(0).integers(ends[:-1], ends[1:])


class SampledDensity(Protocol):
    """A density with exact draws."""

    def sample(self, n: int, generator: np.random.Generator) -> Array:
        """n exact draws (n, D)."""

    def build(self, streams: Sequence[Streams], device: str) -> Problem:
        """The potential."""


@functools.cache
def exact_draws(task: SampledDensity) -> Array:
    """`EXACT` exact draws (m, D), the same for every run."""
    return task.sample(EXACT, np.random.default_rng(EXACT))


def gradient(task: SampledDensity, theta: Array) -> Array:
    """The gradient of U, without noise, at theta (n, D): (n, D)."""
    import torch

    return task.build([Streams(0, 0)], "cpu").gradient(torch.from_numpy(theta), None).numpy()


def with_distances(
    task: SampledDensity, moments: MomentObserver | MixtureObserver, chains: int, trajectory: Trajectory
) -> Observer:
    """Return `moments` with both `DISTANCES` of a density."""
    return DistanceObserver(moments, chains, trajectory, lambda x: (x, gradient(task, x)), exact_draws(task))
