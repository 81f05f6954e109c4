"""The nonlinear regression with long narrow energy ravines of the adaptive-drift paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import param
from harness.tasks import (
    MOMENT_METRICS,
    DataProblem,
    DataTask,
    Metric,
    MomentObserver,
    Observer,
    Protocol,
    Rows,
    Streams,
    Truth,
)
from tasks.regression import ravine_data as data

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from torch import Generator, Tensor

    from harness import Trajectory
    from harness.tasks import Cost

    Array = NDArray[np.float64]
    Batch = dict[str, Tensor]

NAME = "ravine"
NEAR = 1.5
"""How far the mean of theta_1 may be from the true one."""


class RavineProblem(DataProblem):
    """The potential of chains whose data are those of their run's seed: runs side by side have different data."""

    task: Ravine

    def read(self) -> dict[str, Tensor]:
        """The tables of all data sets one after the other, a row of zeros behind each."""
        import torch

        self.sources = [self.task.source(s) for s in self.streams]
        distinct = list(dict.fromkeys(self.sources))
        x, y = np.stack([np.pad(data.simulate(source), ((0, 0), (0, 1))) for source in distinct], axis=1)
        present = np.tile(np.arange(data.N + 1) < data.N, len(distinct)).astype(np.float64)
        first = (data.N + 1) * torch.tensor([distinct.index(source) for source in self.sources])
        self.first = first.to(self.device)  # of the rows of each chain
        arrays = {"x": x.ravel(), "rest": (y - (x - 1) ** 2).ravel(), "present": present}
        return {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}

    def draw_batches(self, steps: int) -> Batch:
        return {"index": super().draw_batches(steps)["index"] + self.first[:, None]}

    def rows(self, chains: slice, batch: Batch | None) -> Rows:
        import torch

        if batch is not None or len(set(self.sources)) == 1:
            return super().rows(chains, batch)
        return Rows(self.arrays, self.first[chains, None] + torch.arange(data.N + 1, device=self.device))


def _misfit(theta: Tensor, rows: Rows) -> Tensor:
    """f(x) - y, (C, n)."""
    x, first, second = rows["x"], theta[:, :1], theta[:, 1:]
    return 2 * (first * x).sin() + (second * x - 1).cos() + (first / 30 - second / 20) - rows["rest"]


@dataclass(frozen=True, kw_only=True)
class Ravine(DataTask):
    """Two frequencies of a regression curve, N = 10,000 points simulated at theta = (20, 10), prior N(0, I).

        y = (x - 1)^2 + 2 sin(theta_1 x) + theta_1 / 30 + cos(theta_2 x - 1) - theta_2 / 20 + N(0, 1),  x ~ U[-2, 4]

    The posterior is nearly a normal with sd 0.0035 and 0.007 at (20, 10), in a landscape of ravines; chains start far
    from it. A data set is a seed: each run has the data of its own seed, and is measured against the posterior of its
    own data, by quadrature. `data_seed` gives all runs the data of one seed, and then the task can state its truth.
    f grows with theta, so far out U does not grow as the prior does.

    The paper states n, the lengths and its samplers' parameters (its table A1), but not where chains start, nor
    whether and how the steps fall from their "initial values". With constant steps they are past the stability limit
    at the mode, 2 / 80,000 = 2.5e-5, by a factor of four: docs/ravine.md. Starts from the prior are ours.

    Source: S. Kim, Q. Song, F. Liang, "Stochastic gradient Langevin dynamics with adaptive drifts", Journal of
    Statistical Computation and Simulation 92, 2022, 4.2, table 1 and A.4.
    """

    prior_precision: ClassVar[float] = 1.0
    window: ClassVar = ((-15.0, 35.0), (-15.0, 25.0))  # of pictures
    protocols: ClassVar = (
        Protocol(
            "adaptive-drift",
            "30,000 iterations, the first 10,000 dropped; ten data sets for the paper's five; starts are ours",
            {"smoke": 600, "quick": 6_000, "paper": 30_000},
            seeds=tuple(range(10)),
            burn_in=1 / 3,
        ),
    )
    metrics: ClassVar = (
        Metric("converged", "max", "1", "share of chains whose mean of theta_1 is within 1.5 of 20"),
        Metric("theta1", "target", "1", "mean of theta_1", target=20.0),
        Metric("theta2", "target", "1", "mean of theta_2", target=10.0),
        *MOMENT_METRICS,
    )

    batch: int = param(100, "[1, 10000]", "n, terms in a minibatch", source="Kim et al. 2022, 4.2")  # type: ignore[misc]
    spread: float = param(1.0, "[0, inf)", "chains start at N(0, spread^2 I)", source="the prior; not stated, ours")
    data_seed: int | None = param(None, "[0, inf)", "the seed whose data all runs have; none: each its own")

    def dim(self) -> int:
        return 2

    def terms(self) -> int:
        return data.N

    def log_likelihood(self, theta: Tensor, rows: Rows) -> Tensor:
        return -_misfit(theta, rows).square() / 2

    def grad(self, theta: Tensor, rows: Rows) -> Tensor:
        import torch

        x, first, second = rows["x"], theta[:, :1], theta[:, 1:]
        misfit = _misfit(theta, rows) * rows["present"]
        along_first = (misfit * (2 * x * (first * x).cos() + 1 / 30)).sum(1)
        along_second = -(misfit * (x * (second * x - 1).sin() + 1 / 20)).sum(1)
        return -torch.stack([along_first, along_second], dim=1)

    def start(self, generator: Generator) -> Tensor:
        return self.spread * super().start(generator)

    def curvature(self) -> float:
        return data.curvature()

    def source(self, streams: Streams) -> Streams:
        """The streams that the data of a chain are drawn from."""
        if self.data_seed is not None:
            return Streams(self.data_seed, 0, (NAME,))
        return Streams(streams.seed, 0, streams.axes)

    def run_energy(self, points: ArrayLike, seed: int) -> NDArray[np.float64]:
        """U at points (n, 2) for the data of a run's seed, from every tenth row: (n,). For pictures."""
        rows = data.simulate(self.source(Streams(seed, 0, (NAME,))))
        return 10 * data.energy(np.asarray(points, dtype=np.float64), rows[:, ::10])

    def truth(self) -> Truth | None:
        """Of the data of `data_seed`; None where every run has its own."""
        return None if self.data_seed is None else data.truth(Streams(self.data_seed, 0, (NAME,)))

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        assert isinstance(problem, RavineProblem)
        return observer(data.truth(problem.sources[chains.start]), trajectory, cost)

    def build(self, streams: Sequence[Streams], device: str) -> RavineProblem:
        return RavineProblem(self, streams, device)


def observer(truth: Truth, trajectory: Trajectory, cost: Cost) -> MomentObserver:
    """Errors of moments, and the means of each chain and of all."""
    return MomentObserver(truth, trajectory, cost, _sums, _means)


def _sums(draws: Array, weights: Array) -> Array:
    """Of w, w theta_1 and w theta_2 for each chain, (C, 3)."""
    w = weights[:, :, None]
    return np.concatenate([w.sum(axis=0), (w * draws).sum(axis=0)], axis=1)


def _means(sums: Array) -> dict[str, float | None]:
    near = np.abs(sums[:, 1] / sums[:, 0] - data.TRUE[0]) < NEAR
    _, first, second = sums.sum(axis=0) / sums[:, 0].sum()
    return {"converged": float(near.mean()), "theta1": first, "theta2": second}
