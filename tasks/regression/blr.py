"""Bayesian logistic regression: of any design, and of three Statlog sets as in the cyclical SG-MCMC paper."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness import param
from harness.tasks import (
    DataProblem,
    DataTask,
    Observer,
    Protocol,
    Truth,
)
from tasks.datasets import uci
from tasks.distances import STEIN_DISCREPANCY, DistanceObserver
from tasks.regression.series import SERIES_METRICS, TEMPERATURE_METRICS, SeriesObserver

if TYPE_CHECKING:
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, Rows, Streams

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Logistic(DataTask):
    """U(theta) = sum_i log(1 + exp(-a_i theta)) + |theta|^2 / 2, with a_i the row of term i, signed by its class.

    shape      (N, D), the bias included
    record     the file of its truth, made by long HMC as `bench truth` does, with the ends of the Hessian's spectrum
    """

    shape: ClassVar[tuple[int, int]]
    record: ClassVar[Path]
    prior_precision: ClassVar[float] = 1.0
    provides: ClassVar = frozenset({"terms", "scores", "metric", "gauss_newton"})
    given: ClassVar = {"metric": "the inverse of the Hessian of U at the mode, found before the run"}
    metrics: ClassVar = (*SERIES_METRICS, *TEMPERATURE_METRICS, STEIN_DISCREPANCY)

    def design(self) -> Array:
        """The rows a_i (N, D), times +1 for the positive class and -1 otherwise."""
        raise NotImplementedError

    def dim(self) -> int:
        return self.shape[1]

    def terms(self) -> int:
        return self.shape[0]

    def arrays(self, part: str) -> Mapping[str, Array]:
        return {"a": self.design()}

    def log_likelihood(self, theta: Tensor, rows: Rows) -> Tensor:
        from torch.nn.functional import logsigmoid

        return logsigmoid(margins(theta, rows["a"]))

    def value_and_grad(self, theta: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        from torch.nn.functional import logsigmoid

        a = rows["a"]
        m = margins(theta, a)
        return logsigmoid(m), (a * (-m).sigmoid().unsqueeze(2)).sum(1)

    def grad(self, theta: Tensor, rows: Rows) -> Tensor:
        a = rows["a"]  # each look gathers the rows anew
        return (a * (-margins(theta, a)).sigmoid().unsqueeze(2)).sum(1)

    def scores(self, theta: Tensor, rows: Rows) -> Tensor:
        a = rows["a"]
        return -a * (-margins(theta, a)).sigmoid().unsqueeze(2)

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """The Hessian of U at its mode, everywhere: its inverse, and no divergence."""
        return self.inverse_metric.to(theta.device).expand(len(theta), -1, -1), theta.new_zeros(theta.shape)

    @functools.cached_property
    def inverse_metric(self) -> Tensor:
        """The inverse of that Hessian, (D, D)."""
        import torch

        _, values, vectors = self.laplace
        return torch.from_numpy(vectors / values @ vectors.T)

    @functools.cached_property
    def laplace(self) -> Laplace:
        """The mode and the Hessian there."""
        return laplace(self.design())

    def build(self, streams: Sequence[Streams], device: str) -> LogisticProblem:
        return LogisticProblem(self, streams, device)

    def curvature(self) -> float:
        return float(stored(self.record)["hessian_eigenvalues"][1])

    def truth(self) -> Truth:
        return Truth.of_record(stored(self.record))

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        design, count = self.design(), chains.stop - chains.start

        def slopes(theta: Array) -> Array:
            return gradient(design, theta)

        series = SeriesObserver(self.truth(), count, trajectory, cost, gradient=slopes, axes=self.laplace.eigenvectors)
        return DistanceObserver(series, count, trajectory, lambda theta: (theta, slopes(theta)))


class LogisticProblem(DataProblem):
    """The potential of a `Logistic`."""

    task: Logistic

    @functools.cached_property
    def inverse_metric(self) -> Tensor:
        """That of the task, on the device: a recorded step does not copy it there."""
        return self.task.inverse_metric.to(self.device)

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        return self.inverse_metric.expand(len(theta), -1, -1), theta.new_zeros(theta.shape)

    def gauss_newton(self, theta: Tensor, *, last_layer: bool, full: bool) -> tuple[dict[int, list[Tensor]], float]:
        """The Hessian of the likelihood, sum p (1 - p) a a' (C, D, D): the model is linear, so they are the same."""
        a = self.arrays["a"][: self.terms]
        m = margins(theta, a)
        weights = m.sigmoid() * (-m).sigmoid()
        return {0: [(weights[:, :, None] * a).mT @ a]}, self.task.prior_precision


def margins(theta: Tensor, a: Tensor) -> Tensor:
    """a_i theta, (C, n)."""
    return (a * theta.unsqueeze(1)).sum(2)


@functools.cache
def stored(path: Path) -> dict[str, Any]:
    """The record in a file."""
    record: dict[str, Any] = json.loads(path.read_text())
    return record


class Laplace(NamedTuple):
    """The mode (D,) and the Hessian of U there, as eigenvalues (D,) in rising order and eigenvectors (D, D)."""

    mode: Array
    eigenvalues: Array
    eigenvectors: Array


def laplace(design: Array) -> Laplace:
    """Newton's method from 0: U is strictly convex, and with standardised covariates the full step converges."""
    theta = np.zeros(design.shape[1])
    for _ in range(100):
        step = np.linalg.solve(hessian(design, theta), gradient(design, theta))
        theta = theta - step
        if np.abs(step).max() < 1e-12:
            return Laplace(theta, *np.linalg.eigh(hessian(design, theta)))
    raise ArithmeticError("Newton's method found no mode in 100 steps")


def gradient(design: Array, theta: Array) -> Array:
    """grad U at points (..., D)."""
    return np.asarray(theta - _misfit(design, theta) @ design)


def hessian(design: Array, theta: Array) -> Array:
    """The Hessian of U at theta (D,): (D, D)."""
    p = _misfit(design, theta)
    return np.asarray((design * (p * (1 - p))[:, None]).T @ design + np.eye(len(theta)))


def _misfit(design: Array, theta: Array) -> Array:
    """1 / (1 + exp(a_i theta)), the probability of the wrong class: (..., N)."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(theta @ design.T)))


@dataclass(frozen=True, kw_only=True)
class LogisticTask(Logistic):
    """Logistic regression with prior N(0, I) on all rows of a Statlog set; a subclass names the set.

    Covariates are standardised with the population sd, the bias column stands last; chains start at a draw from the
    prior. The paper gives neither prior nor batch size: this is the prior that reproduces the public reference
    posterior, and full-data gradients are the default.

    positive   its class that counts as 1

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, appendix.
    """

    positive: ClassVar[int]
    budgets: ClassVar = {"smoke": 1_000, "quick": 4_000, "paper": 10_000}
    protocols: ClassVar = (
        Protocol("csgmcmc", "5,000 steps of burn-in, 5,000 draws", budgets, burn_in=0.5),
        Protocol("minibatches", "batches of 32 terms, for statements about gradient noise; ours",
                 {"smoke": 1_000, "quick": 20_000, "paper": 100_000}, burn_in=0.5, settings={"task.batch": 32}),
        Protocol("small-batches", "batches of 10 terms, on blr-german a hundredth of all; ours",
                 {"smoke": 1_000, "quick": 20_000, "paper": 100_000}, burn_in=0.5, settings={"task.batch": 10}),
    )  # fmt: skip

    batch: int | None = param(None, "[1, inf)", "n, terms in a minibatch; none: all of them", source="not stated; ours")  # type: ignore[misc]

    def design(self) -> Array:
        attributes, classes = uci.load(self.datasets[0])
        rows = np.column_stack([uci.standardise(attributes), np.ones(len(attributes))])
        return np.asarray(np.where(classes == self.positive, 1.0, -1.0)[:, None] * rows)


TRUTHS = Path(__file__).parent / "truth"


@dataclass(frozen=True, kw_only=True)
class Australian(LogisticTask):
    """Australian credit approval: 690 rows, 14 covariates and bias; class 1 is positive."""

    datasets: ClassVar = (uci.AUSTRALIAN,)
    positive: ClassVar = 1
    shape: ClassVar = (690, 15)
    record: ClassVar = TRUTHS / "australian.json"


@dataclass(frozen=True, kw_only=True)
class German(LogisticTask):
    """German credit, numeric: 1000 rows, 24 covariates and bias; bad credit (2) is positive."""

    datasets: ClassVar = (uci.GERMAN,)
    positive: ClassVar = 2
    shape: ClassVar = (1000, 25)
    record: ClassVar = TRUTHS / "german.json"


@dataclass(frozen=True, kw_only=True)
class Heart(LogisticTask):
    """Statlog heart disease: 270 rows, 13 covariates and bias; disease present (2) is positive."""

    datasets: ClassVar = (uci.HEART,)
    positive: ClassVar = 2
    shape: ClassVar = (270, 14)
    record: ClassVar = TRUTHS / "heart.json"
