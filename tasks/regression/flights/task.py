"""Bayesian logistic regression on the flights of 2013 from New York City, with a hierarchical prior as a setting."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np

from harness import param
from harness.tasks import DataProblem, Observer, Protocol, Reference, Truth
from tasks.datasets import flights
from tasks.functions import FunctionTask
from tasks.regression.all_rows import AllRowsProblem
from tasks.regression.blr import Laplace, Logistic, stored
from tasks.regression.held_out import HELD_OUT_METRICS, HeldOutObserver
from tasks.regression.series import SERIES_METRICS, TEMPERATURE_METRICS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, Streams

    Array = NDArray[np.float64]
    Batch = dict[str, Tensor]

LATE = 15
"""Minutes: a flight is late if it arrives later than this."""
HELD_OUT = 10
"""One flight out of this many is in the test part: the tenth, the twentieth and so on."""
FOLDER = Path(__file__).parent
CARRIERS = len(flights.LEVELS["carrier"])
CHUNK = 50
"""Draws that are computed at once: 35 MB of probabilities."""


class Cells(NamedTuple):
    """Equal rows x (U, D) of a design, with the number of flights and of late flights in each, (U,)."""

    rows: Array
    flights: Array
    late: Array


class FlightsProblem(AllRowsProblem):
    """The potential of `FlightDelays`. On all the data equal rows are counted; the sum is exact."""

    task: FlightDelays

    def __init__(self, task: FlightDelays, streams: Sequence[Streams], device: str) -> None:
        import torch

        super().__init__(task, streams, device)
        self.cells = [torch.from_numpy(each).to(device) for each in task.cells]
        if task.hierarchical:
            self.under_normal_prior = torch.arange(self.dim, device=device) >= CARRIERS
            self.under_normal_prior[-1] = False

    def full(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """U (C,) and grad U (C, D): U = sum_u n_u log(1 + exp(x_u theta)) - k_u x_u theta - log p(theta)."""
        import torch

        rows, count, late = self.cells
        margins = theta @ rows.T
        energy = torch.nn.functional.softplus(margins) @ count - margins @ late - self.task.log_prior(theta)
        return energy, self._gradient(theta, margins)

    def full_gradient(self, theta: Tensor) -> Tensor:
        return self._gradient(theta, theta @ self.cells[0].T)

    def _gradient(self, theta: Tensor, margins: Tensor) -> Tensor:
        rows, count, late = self.cells
        return self.task.prior_gradient(theta) + (margins.sigmoid() * count - late) @ rows


@dataclass(frozen=True, kw_only=True)
class FlightDelays(Logistic):
    """Whether a flight arrives more than 15 minutes late: 294,612 flights, D = 54; 32,734 flights to test.

    Covariates are indicators of carrier, origin, month, weekday and hour of scheduled departure, without the first
    level of each (carrier 9E, Newark, January, Monday, 5 h), the distance, standardised, and a 1 for the bias. Every
    tenth flight of the file is in the test part. The prior is N(0, I), and chains start at a draw from it.

    hierarchical: all 16 carriers have an effect b_c, and

        b_c ~ N(0, tau^2),   tau ~ half-normal(1),   theta = (b, other effects, bias, log tau),   D = 56

    with the Jacobian of tau = exp(log tau). The effects are centred, not divided by tau: most carriers have thousands
    of flights, so that the data determine b_c, and b_c / tau would depend on tau. Errors are those of tau, not of its
    logarithm.

    Accuracy and NLL on the test part are those of the posterior mean predictive, by up to 1,000 draws evenly spaced.

    Source: ours. The data: see `tasks.datasets.flights`.
    """

    few: ClassVar[int | None] = None  # rows in laws
    datasets: ClassVar = (flights.FLIGHTS,)
    metrics: ClassVar = (*HELD_OUT_METRICS, *SERIES_METRICS, *TEMPERATURE_METRICS)
    budgets: ClassVar = {"smoke": 118, "quick": 2_950, "paper": 29_500}
    protocols: ClassVar = (
        Protocol("minibatches", "batches of 500, 50 passes, half of them burn-in; ours", budgets, burn_in=0.5),
        Protocol("hierarchical", "the same with a hierarchical prior of the carriers; ours",
                 budgets, burn_in=0.5, settings={"task.hierarchical": True}),
    )  # fmt: skip

    batch: int | None = param(500, "[1, inf)", "n, flights in a minibatch; none: all of them", source="ours")  # type: ignore[misc]
    hierarchical: bool = param(False, meaning="whether the carriers have a hierarchical prior", source="ours")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hierarchical:  # its prior is not normal
            object.__setattr__(self, "provides", frozenset({"terms", "scores"}))

    @property
    def record(self) -> Path:  # type: ignore[override]
        return FOLDER / ("hierarchical.json" if self.hierarchical else "truth.json")

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.few or 294_612, 56 if self.hierarchical else 54

    def design(self) -> Array:
        rows, late = self.part("train")
        return np.where(late, 1.0, -1.0)[:, None] * rows

    def part(self, name: str) -> tuple[Array, NDArray[np.bool_]]:
        """The rows x (N, D) of a part, "train" or "test", and whether each flight was late (N,)."""
        levels, distance, late = chosen(name)
        return self.rows(levels[: self.few], distance[: self.few]), late[: self.few]

    def rows(self, levels: NDArray[np.uint8], distance: Array) -> Array:
        """The rows x (n, D) of flights with these levels (n, 5) and distances (n,); 0 for log tau."""
        count = len(levels)
        indicators = [
            np.eye(len(values))[level] for values, level in zip(flights.LEVELS.values(), levels.T, strict=True)
        ]
        skipped = [0 if self.hierarchical else 1, 1, 1, 1, 1]
        parts = [each[:, skip:] for each, skip in zip(indicators, skipped, strict=True)]
        return np.column_stack([*parts, distance, np.ones(count), *[np.zeros(count)] * self.hierarchical])

    @functools.cached_property
    def cells(self) -> Cells:
        """The rows of the training part, equal ones counted."""
        levels, distance, late = (each[: self.few] for each in chosen("train"))
        lengths, length = np.unique(distance, return_inverse=True)
        sizes = (*(len(values) for values in flights.LEVELS.values()), len(lengths))
        code = np.ravel_multi_index((*levels.T, length), sizes)
        distinct, first, number = np.unique(code, return_index=True, return_inverse=True)
        count, delayed = (np.bincount(number, w, len(distinct)).astype(np.float64) for w in (None, late))
        return Cells(self.rows(levels[first], distance[first]), count, delayed)

    def log_prior(self, theta: Tensor) -> Tensor:
        if not self.hierarchical:
            return super().log_prior(theta)
        b, others, log_tau = theta[:, :CARRIERS], theta[:, CARRIERS:-1], theta[:, -1]
        carriers = b.square().sum(1) * (-2 * log_tau).exp() / 2 + CARRIERS * log_tau
        scale = (2 * log_tau).exp() / 2 - log_tau
        return -(carriers + scale + self._precision() / 2 * others.square().sum(1))

    def prior_gradient(self, theta: Tensor) -> Tensor:
        import torch

        if not self.hierarchical:
            return theta
        b, others, log_tau = theta[:, :CARRIERS], theta[:, CARRIERS:-1], theta[:, -1:]
        shrunk = b * (-2 * log_tau).exp()
        of_scale = CARRIERS - 1 - (b * shrunk).sum(1, keepdim=True) + (2 * log_tau).exp()
        return torch.cat([shrunk, self._precision() * others, of_scale], 1)

    def judged(self, theta: Tensor) -> Tensor:
        """What has errors: theta with tau in place of log tau (n, D)."""
        import torch

        return torch.cat([theta[:, :-1], theta[:, -1:].exp()], 1) if self.hierarchical else theta

    @functools.cached_property
    def laplace(self) -> Laplace:
        theta = np.zeros(self.dim())
        for _ in range(100):
            step = np.linalg.solve(self.hessian(theta), self.slopes(theta))
            theta = theta - step
            if np.abs(step).max() < 1e-12:
                return Laplace(theta, *np.linalg.eigh(self.hessian(theta)))
        raise ArithmeticError("Newton's method found no mode in 100 steps")

    def slopes(self, theta: Array) -> Array:
        """grad U at points (..., D) under the normal prior."""
        return np.asarray(theta + (self._probability(theta) * self.cells.flights - self.cells.late) @ self.cells.rows)

    def hessian(self, theta: Array) -> Array:
        """The Hessian of U at theta (D,) under the normal prior, (D, D)."""
        p = self._probability(theta)
        weighted = self.cells.rows * (self.cells.flights * p * (1 - p))[:, None]
        return np.asarray(weighted.T @ self.cells.rows + np.eye(len(theta)))

    def _probability(self, theta: Array) -> Array:
        return probability(self.cells.rows, theta)

    def truth(self) -> Truth | None:
        """The moments of theta; None for the hierarchical prior, where `function_truth` has those of `judged`."""
        return None if self.hierarchical or self.few else self.function_truth()

    def curvature(self) -> float:
        if self.record.exists() and "hessian_eigenvalues" in stored(self.record):
            return super().curvature()
        return float(self.laplace.eigenvalues[-1])

    def function_truth(self) -> Truth | None:  # type: ignore[override]
        """The shipped moments; without the file, those that `bench truth` stored."""
        return Truth.of_record(stored(self.record)) if self.record.exists() else self.stored_truth

    def function_reference(self) -> Reference | None:
        return FunctionTask.function_reference(self) if self.hierarchical else None  # type: ignore[arg-type]

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        return DelayObserver(self, chains.stop - chains.start, trajectory, cost)

    def for_laws(self) -> Self:
        small = type("SmallFlightDelays", (type(self),), {"few": 600})
        task: Self = small(batch=None, hierarchical=self.hierarchical)
        return task

    def build(self, streams: Sequence[Streams], device: str) -> FlightsProblem:  # type: ignore[override]
        return FlightsProblem(self, streams, device)


class DelayObserver(HeldOutObserver):
    """`HeldOutObserver` of `FlightDelays.judged`; temperatures are those under the normal prior."""

    def __init__(self, task: FlightDelays, chains: int, trajectory: Trajectory, cost: Cost) -> None:
        self.task = task
        rows, late = task.part("test")

        def probabilities(draws: Array) -> Array:
            parts = np.array_split(draws, -(-len(draws) // CHUNK))
            p = sum(probability(rows, part).sum(axis=0) for part in parts) / len(draws)
            return np.column_stack([1 - p, p])

        def slopes(draws: Array) -> Array:
            return np.concatenate([task.slopes(part) for part in np.array_split(draws, -(-len(draws) // CHUNK))])

        heat = {} if task.hierarchical else {"gradient": slopes, "axes": task.laplace.eigenvectors, "gradients": 500}
        super().__init__(
            task.function_truth(), chains, trajectory, cost,
            probabilities=probabilities, labels=late.astype(np.int64), **heat,
        )  # fmt: skip

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        super().observe(self.task.judged(draws.flatten(0, 1)).view_as(draws), weights, steps)


@functools.cache
def chosen(part: str) -> tuple[NDArray[np.uint8], Array, NDArray[np.bool_]]:
    """Levels (N, 5), standardised distances (N,) and lateness (N,) of the flights of a part."""
    table = flights.load()
    tenth = np.arange(len(table.delay)) % HELD_OUT == HELD_OUT - 1
    of = tenth if part == "test" else ~tenth
    miles = table.distance[~tenth]
    distance = (table.distance[of] - miles.mean()) / miles.std()
    return table.levels[of], distance, table.delay[of] > LATE


def probability(rows: Array, theta: Array) -> Array:
    """1 / (1 + exp(-x theta)) of rows x (M, D) at points (..., D): (..., M)."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-theta @ rows.T)))
