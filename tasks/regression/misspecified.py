"""Two regressions whose models do not fit their data: the posterior's covariance is not that of the estimate."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness import param
from harness.tasks import MOMENT_METRICS, DataProblem, DataTask, Protocol, Truth
from tasks.regression.blr import stored

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from harness.tasks import Rows, Streams

Array = NDArray[np.float64]

N, D = 1_000, 5
BUDGETS = {"smoke": 1_000, "quick": 20_000, "paper": 200_000}
REPLACED = {"run.batch_order": "replaced"}
TRUTHS = Path(__file__).parent / "truth"


@dataclass(frozen=True, kw_only=True)
class Misspecified(DataTask):
    """U(theta) = sum_i l(eta_i, y_i) + |theta|^2 / 2 with eta_i = x_i theta: N = 1,000 made-up rows, D = 5.

    Where the model is wrong, two covariances differ: J^-1, that of the posterior as N grows, and the sandwich J^-1 V
    J^-1, that of its mode from data set to data set, with J the Hessian of U and V = N cov(scores), both at the mode.
    `law=posterior` compares draws with exp(-U), by long HMC; `law=sandwich` with N(mode, J^-1 V J^-1), by Newton's
    method. The chains are the same: a sampler of exp(-U) does not claim the sandwich, and its distance from it says how
    far apart the two laws are. Chains start at a draw from N(0, 0.01 I).
    """

    provides: ClassVar = frozenset({"terms", "scores", "gauss_newton"})
    metrics: ClassVar = MOMENT_METRICS
    prior_precision: ClassVar[float] = 1.0
    stiffest: ClassVar[float]
    protocols: ClassVar = (
        Protocol("posterior", "batches of 32 drawn with replacement, compared with the posterior; ours",
                 BUDGETS, chains=4, burn_in=0.2, settings=REPLACED),
        Protocol("sandwich", "the same, compared with the sandwich, which no sampler of exp(-U) claims; ours",
                 BUDGETS, chains=4, burn_in=0.2, settings={**REPLACED, "task.law": "sandwich"}),
    )  # fmt: skip

    law: str = param("posterior", choices=("posterior", "sandwich"), meaning="what draws are compared with",
                     source="ours")  # fmt: skip
    batch: int | None = param(32, "[1, inf)", "n, rows in a minibatch; none: all of them", source="ours")  # type: ignore[misc]

    @property
    @abstractmethod
    def record(self) -> Path:
        """The file of the posterior's moments."""

    @staticmethod
    @abstractmethod
    def rows() -> Array:
        """The covariates, and y in the last column, (N, D + 1)."""

    @staticmethod
    @abstractmethod
    def loss(eta: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """l and its first and second derivative in eta, each as eta."""

    def dim(self) -> int:
        return D

    def terms(self) -> int:
        return N

    def curvature(self) -> float:
        return self.stiffest

    def start(self, generator: torch.Generator) -> Tensor:
        return 0.1 * super().start(generator)

    def arrays(self, part: str) -> Mapping[str, Array]:
        rows = self.rows()
        return {"x": rows[:, :D], "y": rows[:, D]}

    def log_likelihood(self, theta: Tensor, rows: Rows) -> Tensor:
        return -self.loss(predictor(theta, rows["x"]), rows["y"])[0]

    def value_and_grad(self, theta: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        x = rows["x"]
        value, slope, _ = self.loss(predictor(theta, x), rows["y"])
        return -value, -(x * slope.unsqueeze(2)).sum(1)

    def grad(self, theta: Tensor, rows: Rows) -> Tensor:
        return self.value_and_grad(theta, rows)[1]

    def scores(self, theta: Tensor, rows: Rows) -> Tensor:
        x = rows["x"]
        return x * self.loss(predictor(theta, x), rows["y"])[1].unsqueeze(2)

    def build(self, streams: Sequence[Streams], device: str) -> MisspecifiedProblem:
        return MisspecifiedProblem(self, streams, device)

    def truth(self) -> Truth:
        if self.law == "posterior":
            return Truth.of_record(stored(self.record))
        mode, sandwich = self.estimate
        return Truth.normal(mode, sandwich, "N(mode, J^-1 V J^-1) of the made-up rows, the mode by Newton's method")

    def for_laws(self) -> Misspecified:
        """With the posterior: the laws for tasks compare the truth with exp(-U)."""
        return replace(self, law="posterior")

    @functools.cached_property
    def estimate(self) -> tuple[Array, Array]:
        """The mode (D,) by Newton's method with short steps, and its sandwich covariance (D, D)."""
        import torch

        rows = self.rows()
        x, y = rows[:, :D], torch.from_numpy(rows[:, D])
        theta = np.zeros(D)
        for _ in range(100):
            _, slope, bend = (part.numpy() for part in self.loss(torch.from_numpy(x @ theta), y))
            J = (x * bend[:, None]).T @ x + np.eye(D)
            step = np.linalg.solve(J, slope @ x + theta)
            theta = theta - step * min(1.0, 0.5 / np.abs(step).max())
            if np.abs(step).max() < 1e-12:
                V = N * np.cov((x * slope[:, None]).T, ddof=0)
                return theta, np.linalg.solve(J, np.linalg.solve(J, V).T)
        raise ArithmeticError("Newton's method found no mode in 100 steps")


class MisspecifiedProblem(DataProblem):
    """The potential of a `Misspecified`."""

    task: Misspecified

    def gauss_newton(self, theta: Tensor, *, last_layer: bool, full: bool) -> tuple[dict[int, list[Tensor]], float]:
        """The Hessian of the likelihood, sum l'' x x' (C, D, D)."""
        x, y = (self.arrays[name][: self.terms] for name in ("x", "y"))
        _, _, bend = self.task.loss(predictor(theta, x), y)
        return {0: [(bend[:, :, None] * x).mT @ x]}, 1.0


def predictor(theta: Tensor, x: Tensor) -> Tensor:
    """x_i theta, (C, n)."""
    return (x * theta.unsqueeze(1)).sum(2)


def covariates(rng: np.random.RandomState) -> Array:
    """A column of ones and four uniform covariates of variance 1, the first two with a correlation of 0.6: (N, 5).

    Sums, products and square roots of uniform numbers alone, which are the same on all processors.
    """
    u = np.sqrt(12.0) * (rng.uniform(size=(N, 4)) - 0.5)
    u[:, 1] = 0.6 * u[:, 0] + 0.8 * u[:, 1]
    return np.concatenate([np.ones((N, 1)), u], axis=1)


@dataclass(frozen=True, kw_only=True)
class PoissonMisspecified(Misspecified):
    """Poisson regression, l = exp(eta) - y eta, of counts that vary more than Poisson's and whose mean is no exp(eta).

    y is 4 times a binomial count of 8 with a probability that is a square of a linear function of the covariates.

    Source: ours; Poisson regression as an example of a sandwich that differs from the posterior is Y. Wang, J. Ding,
    J. H. Huggins, arXiv 2606.00293.
    """

    stiffest: ClassVar[float] = 7570.0
    record: ClassVar[Path] = TRUTHS / "poisson-misspecified.json"  # type: ignore[assignment]

    @staticmethod
    def rows() -> Array:
        rng = np.random.RandomState(0)
        x = covariates(rng)
        p = ((3 + 0.6 * x[:, 1] - 0.5 * x[:, 2] + 0.4 * x[:, 3]) / 8) ** 2
        y = 4.0 * (rng.uniform(size=(8, N)) < p).sum(0)
        return np.column_stack([x, y])

    @staticmethod
    def loss(eta: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rate = eta.exp()
        return rate - y * eta, rate - y, rate


@dataclass(frozen=True, kw_only=True)
class RobustMisspecified(Misspecified):
    """Robust regression, l = sqrt(1 + (y - eta)^2) - 1, with errors whose spread goes by a covariate, and outliers.

    The loss is Huber's with a smooth bend, minus the logarithm of a density up to a constant. The errors are sums of
    three uniform numbers, times 3 (1 + x_1^2); every tenth row has 12 more.

    Source: ours; robust linear regression as in Y. Wang, J. Ding, J. H. Huggins, arXiv 2606.00293, who have another
    loss.
    """

    stiffest: ClassVar[float] = 299.0
    record: ClassVar[Path] = TRUTHS / "robust-misspecified.json"  # type: ignore[assignment]

    @staticmethod
    def rows() -> Array:
        rng = np.random.RandomState(1)
        x = covariates(rng)
        error = 3 * (1 + x[:, 1] ** 2) * (rng.uniform(size=(3, N)).sum(0) - 1.5)
        error[::10] += 12
        y = 1 + 0.5 * x[:, 1] - x[:, 2] + 0.8 * x[:, 3] + error
        return np.column_stack([x, y])

    @staticmethod
    def loss(eta: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r = eta - y
        size = (1 + r.square()).sqrt()
        return size - 1, r / size, size**-3
