"""Regression on UCI sets by a small Bayesian network, with a noise level that is sampled too."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import MLP, TUNING_SEED, DataFile, DataProblem, DataTask, Protocol, Reference, Rows, UsageError, param
from tasks.datasets import uci_regression as files
from tasks.regression.uci.observer import FUNCTION_METRICS, REGRESSION_METRICS, RegressionObserver

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Cost, Streams, Trajectory

    Array = NDArray[np.float64]

PARTS = ("train", "validation", "test")
WIDTHS = r"[1-9]\d{0,3}(-[1-9]\d{0,3}){0,7}"
LEAST_SIGMA = 1e-6

BDE = {"variant": "bde", "hidden": "16-16-16-16", "batch": None, "data_seed": 0}
BDE_PROTOCOLS = (
    Protocol(
        "bde",
        "1,200 steps of Adam, 50,000 of warm-up and 1,000 of sampling, of two full gradients each; every tenth is kept",
        {"smoke": 1_400, "quick": 4_000, "paper": 103_201},
        chains=10,
        burn_in=50 / 51,
        thin=10,
        settings=BDE,
        budget_settings={"smoke": {"run.burn_in": 0.5}, "quick": {"run.burn_in": 0.5}},
    ),
    Protocol(
        "bde-short",
        "bde with 2,000 steps of warm-up, ours",
        {"smoke": 1_400, "quick": 4_000, "paper": 7_201},
        chains=10,
        burn_in=2 / 3,
        thin=10,
        settings=BDE,
        budget_settings={"smoke": {"run.burn_in": 0.5}, "quick": {"run.burn_in": 0.5}},
    ),
    Protocol(
        "bde-ensemble",
        "the warm start of bde alone: 1,200 full gradients",
        {"smoke": 100, "quick": 400, "paper": 1_200},
        chains=10,
        settings=BDE,
    ),
)
"""Of the benchmark of scikit-learn-contrib/bde, by its code."""


@dataclass(frozen=True, kw_only=True)
class NetworkRegression(DataTask):
    """y_i ~ N(f(x_i), sigma^2) with a ReLU network f; prior N(0, I) on theta.

        U(theta) = sum_i [(y_i - f(x_i))^2 / (2 sigma^2) + log sigma + log(2 pi) / 2] + |theta|^2 / 2

    The variant "smile" (arXiv 2602.06500): theta is the weights of f and log sigma. Rows are permuted by `data_seed`,
    and the first 70 % are for training, the next 10 % for validation (read by `bench tune` alone), the rest for tests.
    Features and target are standardised by their mean and sd over all rows, as in the source: so the test rows take
    part in the scaling. The permutation is NumPy's, not that of the source, whose splits need jax. Chains start at
    torch's initialisation of the weights and log sigma = 0.

    The variant "bde" (the benchmark of scikit-learn-contrib/bde): theta is the weights of a network with two outputs, f
    and s, and sigma(x) = log(1 + exp(s)) + 10^-6. Of the rows permuted by `data_seed` the first 20 % are for tests, the
    rest for training; this is scikit-learn's train_test_split. All columns are standardised by their mean and sd over
    the training rows. Chains start at weights N(0, 1 / inputs of the layer) and biases 0, and are float32.

    Errors and likelihoods are in standardised units.

    file    the data set
    shape   rows and features of its table
    columns  those of the file that "bde" reads, where they are others
    widest  about the largest eigenvalue of the Gauss-Newton matrix of U at optima that Adam finds
    record  the file of its reference, where there is one: of f at the test rows, at the default settings

    Source: the UCI experiments of SMILE and of bde, by their code.
    """

    file: ClassVar[DataFile]
    shape: ClassVar[tuple[int, int]]
    columns: ClassVar[tuple[int, ...] | None] = None
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
    hidden: str = param("16-16-16", meaning="units of the hidden layers", source="SMILE", later=True)
    variant: str = param(
        "smile", choices=("smile", "bde"), meaning="whose data, noise level and start", source="SMILE", later=True
    )

    def __post_init__(self) -> None:
        if not re.fullmatch(WIDTHS, self.hidden):
            raise UsageError(f"task.hidden = {self.hidden!r:.80} is not the units of 1 to 8 layers, such as 16-16-16")
        super().__post_init__()

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return "float32" if self.variant == "bde" else "float64"

    @functools.cached_property
    def network(self) -> MLP:
        """f, and s where sigma is predicted."""
        features = self.shape[1] if self.variant == "smile" or not self.columns else len(self.columns) - 1
        return MLP([features, *map(int, self.hidden.split("-")), 2 if self.variant == "bde" else 1])

    def dim(self) -> int:
        return self.network.dim + (self.variant == "smile")

    def terms(self) -> int:
        n = self.shape[0]
        return cuts(n)[0] if self.variant == "smile" else n - tests(n)

    def curvature(self) -> float | None:
        return self.widest if self._usual else None

    @property
    def tested(self) -> bool:
        return True

    @property
    def _usual(self) -> bool:
        return (self.hidden, self.variant) == ("16-16-16", "smile")

    def arrays(self, part: str) -> Mapping[str, Array]:
        if self.variant == "smile":
            table = standardised(self.file, self.data_seed)
            rows = np.split(table, cuts(len(table)))[PARTS.index(part)]
        else:
            table = standardised_by_training(self.file, self.columns, self.data_seed)
            rows = np.split(table, [tests(len(table))])[part == "train"]
        return {"x": rows[:, :-1], "y": rows[:, -1]}

    def start(self, generator: torch.Generator) -> Tensor:
        import torch

        if self.variant == "smile":
            weights = self.network.start(generator).double()
            return torch.cat([weights, weights.new_zeros(1)])
        how = {"generator": generator, "dtype": torch.float64, "device": generator.device}
        pieces = [
            piece
            for into, out in self.network.shapes
            for piece in (torch.randn(into * out, **how) / math.sqrt(into), torch.zeros(out, dtype=torch.float64))
        ]
        return torch.cat([piece.to(generator.device) for piece in pieces])

    def outputs(self, theta: Tensor, x: Tensor) -> Tensor:
        """f (C, n) at x (C, n, features)."""
        return self.predicted(theta, x)[0]

    def predicted(self, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """f (C, n) and log sigma, (C, 1) or (C, n), at x (C, n, features)."""
        if self.variant == "smile":
            return self.network.logits(theta[:, :-1], x)[..., 0], theta[:, -1:]
        found = self.network.logits(theta, x)
        return found[..., 0], softplus(found[..., 1]).log()

    def log_likelihood(self, theta: Tensor, rows: Rows) -> Tensor:
        f, log_sigma = self.predicted(theta, rows["x"])
        return log_normal(rows["y"] - f, log_sigma)

    def value_and_grad(self, theta: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        import torch

        present = rows["present"]
        if self.variant == "smile":
            f, pullback = self.network.logits_and_pullback(theta[:, :-1], rows["x"])
            error, log_sigma = rows["y"] - f[..., 0], theta[:, -1:]
            slope = present * error * (-2 * log_sigma).exp()
            by_sigma = (slope * error - present).sum(1, keepdim=True)
            return log_normal(error, log_sigma), torch.cat([pullback(slope[..., None]), by_sigma], dim=1)
        found, pullback = self.network.logits_and_pullback(theta, rows["x"])
        error, sigma = rows["y"] - found[..., 0], softplus(found[..., 1])
        slope = present * error / sigma.square()
        by_output = (slope * error - present) / sigma * found[..., 1].sigmoid()
        return log_normal(error, sigma.log()), pullback(torch.stack([slope, by_output], dim=2))

    def grad(self, theta: Tensor, rows: Rows) -> Tensor:
        return self.value_and_grad(theta, rows)[1]

    def functions(self, theta: Tensor) -> Tensor:
        import torch

        return self.outputs(theta, torch.from_numpy(self.arrays("test")["x"]).to(theta))

    def function_reference(self) -> Reference | None:
        if self.stored_reference is not None or self.record is None or self.data_seed != 1 or not self._usual:
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
        if self.task.variant == "bde":  # it has no validation rows
            return super().part(name)
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


def softplus(s: Tensor) -> Tensor:
    """sigma = log(1 + exp(s)) + 10^-6."""
    import torch

    return torch.nn.functional.softplus(s) + LEAST_SIGMA


def cuts(n: int) -> tuple[int, int]:
    """Where the training and the validation part of n rows end."""
    return int(0.7 * n), int((0.7 + 0.1) * n)


def tests(n: int) -> int:
    """How many of n rows are for tests under "bde": 20 %, rounded up."""
    return -(-n // 5)


@functools.lru_cache(maxsize=4)
def standardised_by_training(file: DataFile, columns: tuple[int, ...] | None, data_seed: int) -> Array:
    """The permuted table, test rows first, each column less its mean, by its sd (divisor N), of the other rows."""
    table = files.load(file, columns)
    table = table[np.random.RandomState(data_seed).permutation(len(table))]
    train = table[tests(len(table)) :]
    return np.asarray((table - train.mean(axis=0)) / train.std(axis=0))


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
    protocols: ClassVar = (*NetworkRegression.protocols, *BDE_PROTOCOLS)
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
    """Bike Sharing, rentals by hour: 12,165 rows to train on, 3,476 to test; 11 features, 754 parameters.

    The variant "bde" reads the season too: 12 features.
    """

    file: ClassVar = files.BIKESHARING
    datasets: ClassVar = (files.BIKESHARING,)
    shape: ClassVar = (17_379, 11)
    columns: ClassVar = (*range(2, 14), 16)
    protocols: ClassVar = (*NetworkRegression.protocols, *BDE_PROTOCOLS)
    widest: ClassVar = 3e6
