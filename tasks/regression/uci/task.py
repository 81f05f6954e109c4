"""Regression on UCI sets by a small Bayesian network, with a noise level that is sampled too."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import MLP, TUNING_SEED, DataFile, DataProblem, DataTask, Protocol, Reference, Rows, param
from tasks.datasets import uci_regression as files
from tasks.regression.uci.observer import FUNCTION_METRICS, REGRESSION_METRICS, RegressionObserver

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Cost, Streams, Trajectory

    Array = NDArray[np.float64]

PARTS = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True)
class NetworkRegression(DataTask):
    """y_i ~ N(f(x_i), sigma^2) with a ReLU network f, hidden layers of 16, 16 and 16 units; prior N(0, I) on theta.

    theta is the weights of f and log sigma:

        U(theta) = sum_i [(y_i - f(x_i))^2 / (2 sigma^2) + log sigma + log(2 pi) / 2] + |theta|^2 / 2

    Rows are permuted by `data_seed`, and the first 70 % are for training, the next 10 % for validation (read by `bench
    tune` alone), the rest for tests. Features and target are standardised by their mean and sd over all rows, as in the
    source: so the test rows take part in the scaling. Errors and likelihoods are in standardised units. The
    permutation is NumPy's, not that of the source, whose splits need jax. Chains start at torch's initialisation of the
    weights and log sigma = 0.

    file    the data set
    shape   rows and features of its table
    widest  about the largest eigenvalue of the Gauss-Newton matrix of U at optima that Adam finds
    record  the file of its reference, where there is one: of f at the test rows of `data_seed` 1

    Source: the UCI experiments of SMILE, arXiv 2602.06500, and its code.
    """

    file: ClassVar[DataFile]
    shape: ClassVar[tuple[int, int]]
    widest: ClassVar[float]
    record: ClassVar[Path | None] = None
    prior_precision: ClassVar[float] = 1.0
    opaque: ClassVar[bool] = True
    metrics: ClassVar = (*REGRESSION_METRICS, *FUNCTION_METRICS)
    protocols: ClassVar = (
        Protocol(
            "smile",
            "50,000 steps of warm-up and 10,000 of sampling, of two gradients each; every tenth draw is kept",
            {"smoke": 200, "quick": 2_000, "paper": 120_000},
            chains=10,
            burn_in=5 / 6,
            thin=10,
            budget_settings={"smoke": {"run.burn_in": 0.5}, "quick": {"run.burn_in": 0.5}},
        ),
    )

    batch: int | None = param(256, "[1, inf)", "n, rows in a minibatch; none: all of them", source="SMILE")  # type: ignore[misc]
    data_seed: int = param(1, "[0, 4294967295]", "of the permutation of the rows", source="SMILE: 1 to 3")

    @functools.cached_property
    def network(self) -> MLP:
        """f."""
        return MLP([self.shape[1], 16, 16, 16, 1])

    def dim(self) -> int:
        return self.network.dim + 1

    def terms(self) -> int:
        return cuts(self.shape[0])[0]

    def curvature(self) -> float:
        return self.widest

    @property
    def tested(self) -> bool:
        return True

    def arrays(self, part: str) -> Mapping[str, Array]:
        table = standardised(self.file, self.data_seed)
        rows = np.split(table, cuts(len(table)))[PARTS.index(part)]
        return {"x": rows[:, :-1], "y": rows[:, -1]}

    def start(self, generator: torch.Generator) -> Tensor:
        import torch

        weights = self.network.start(generator).double()
        return torch.cat([weights, weights.new_zeros(1)])

    def outputs(self, theta: Tensor, x: Tensor) -> Tensor:
        """f (C, n) at x (C, n, features)."""
        return self.network.logits(theta[:, :-1], x)[..., 0]

    def log_likelihood(self, theta: Tensor, rows: Rows) -> Tensor:
        return log_normal(rows["y"] - self.outputs(theta, rows["x"]), theta[:, -1:])

    def value_and_grad(self, theta: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        import torch

        f, pullback = self.network.logits_and_pullback(theta[:, :-1], rows["x"])
        error, log_sigma, present = rows["y"] - f[..., 0], theta[:, -1:], rows["present"]
        slope = present * error * (-2 * log_sigma).exp()
        by_sigma = (slope * error - present).sum(1, keepdim=True)
        return log_normal(error, log_sigma), torch.cat([pullback(slope[..., None]), by_sigma], dim=1)

    def grad(self, theta: Tensor, rows: Rows) -> Tensor:
        return self.value_and_grad(theta, rows)[1]

    def functions(self, theta: Tensor) -> Tensor:
        import torch

        return self.outputs(theta, torch.from_numpy(self.arrays("test")["x"]).to(theta))

    def function_reference(self) -> Reference | None:
        if self.stored_reference is not None or self.record is None or self.data_seed != 1:
            return self.stored_reference
        return Reference.of_record(json.loads(self.record.read_text()), len(self.arrays("test")["y"]))

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> RegressionObserver:
        return RegressionObserver(problem, chains.stop - chains.start, trajectory, cost)

    def build(self, streams: Sequence[Streams], device: str) -> RegressionProblem:
        return RegressionProblem(self, streams, device)


class RegressionProblem(DataProblem):
    """The potential; `bench tune` is scored on the validation rows, without a reference."""

    task: NetworkRegression

    def part(self, name: str) -> Mapping[str, Array]:
        return self.task.arrays("validation" if name == "test" and self.tuned else name)

    @property
    def tuned(self) -> bool:
        """Whether it is of a run of `bench tune`."""
        return self.streams[0].seed >= TUNING_SEED

    @functools.cached_property
    def scored(self) -> dict[str, Tensor]:
        """The rows that predictions are scored on."""
        rows = self.part("test")
        return self.tensors(rows, len(rows["y"]))

    def function_reference(self) -> Reference | None:
        """What predictions are compared with, where there is an accepted one."""
        found = None if self.tuned else self.task.function_reference()
        return None if found is None or found.refused else found


def log_normal(error: Tensor, log_sigma: Tensor) -> Tensor:
    """log N(error; 0, sigma^2)."""
    return -(error * (-log_sigma).exp()).square() / 2 - log_sigma - math.log(2 * math.pi) / 2


def cuts(n: int) -> tuple[int, int]:
    """Where the training and the validation part of n rows end."""
    return int(0.7 * n), int((0.7 + 0.1) * n)


@functools.lru_cache(maxsize=4)
def standardised(file: DataFile, data_seed: int) -> Array:
    """The permuted table, each column less its mean, by its sd (divisor N)."""
    table = files.load(file)
    table = table[np.random.RandomState(data_seed).permutation(len(table))]
    return np.asarray((table - table.mean(axis=0)) / table.std(axis=0))


@dataclass(frozen=True, kw_only=True)
class Airfoil(NetworkRegression):
    """Airfoil Self-Noise: 1,052 rows to train on, 301 to test; 5 features, 658 parameters."""

    file: ClassVar = files.AIRFOIL
    datasets: ClassVar = (files.AIRFOIL,)
    shape: ClassVar = (1503, 5)
    widest: ClassVar = 6e6


@dataclass(frozen=True, kw_only=True)
class Energy(NetworkRegression):
    """Energy Efficiency, heating load: 537 rows to train on, 154 to test; 8 features, 706 parameters."""

    file: ClassVar = files.ENERGY
    datasets: ClassVar = (files.ENERGY,)
    shape: ClassVar = (768, 8)
    widest: ClassVar = 8e6


@dataclass(frozen=True, kw_only=True)
class Bikesharing(NetworkRegression):
    """Bike Sharing, rentals by hour: 12,165 rows to train on, 3,476 to test; 11 features, 754 parameters."""

    file: ClassVar = files.BIKESHARING
    datasets: ClassVar = (files.BIKESHARING,)
    shape: ClassVar = (17_379, 11)
    widest: ClassVar = 3e6
