"""Bayesian softmax regression on principal components of MNIST."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from harness import param
from harness.tasks import (
    MOMENT_METRICS,
    PREDICTIVE_METRICS,
    DataProblem,
    DataTask,
    MomentObserver,
    Observer,
    Outcome,
    PredictiveObserver,
    Protocol,
    Truth,
)
from tasks.datasets import idx
from tasks.regression.all_rows import AllRowsProblem

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, Rows, Streams

    Array = NDArray[np.float64]
    Batch = dict[str, Tensor]

CLASSES, COMPONENTS = 10, 40
FOLDER = Path(__file__).parent
STRETCH = 1_000
"""Rows of the full data that are computed at once: with 16 chains 1 MB of logits, which stay in the cache."""


class SoftmaxProblem(AllRowsProblem):
    """The potential of `MnistLogistic`."""

    task: MnistLogistic

    @functools.cached_property
    def class_sums(self) -> Tensor:
        """The sum of the rows x_i of each class, as a row of theta, (D,)."""
        import torch

        label = torch.nn.functional.one_hot(self.arrays["label"][: self.terms], CLASSES)
        return (label.to(self.arrays["x"].dtype).T @ self.arrays["x"][: self.terms]).flatten()

    def full(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """U (C,) and grad U (C, D): U = sum_i log sum_k exp(w_k x_i) - sum_i w_{y_i} x_i + |theta|^2 / 2."""
        weights = theta.reshape(len(theta) * CLASSES, -1)
        energy = theta.square().sum(1) / 2 - theta @ self.class_sums
        slope = weights.new_zeros(weights.shape)
        for x in self.arrays["x"][: self.terms].split(STRETCH):
            logits = (weights @ x.T).view(len(theta), CLASSES, -1)
            top = logits.amax(1, keepdim=True)
            p = logits.sub_(top).exp_()
            total = p.sum(1, keepdim=True)
            energy = energy + (total.log() + top).sum((1, 2))
            slope.addmm_(p.div_(total).view(len(weights), -1), x)
        return energy, theta - self.class_sums + slope.view_as(theta)


@dataclass(frozen=True, kw_only=True)
class MnistLogistic(DataTask):
    """U(theta) = -sum_i log softmax(W x_i)[y_i] + |theta|^2 / 2: ten digits, N = 60,000, D = 410.

    x_i is the image on 40 principal components of the training images, each with variance 1, and a 1 for the bias; W
    (10, 41) is theta, row by row. The components are stored beside the task, so that all machines have the same; the
    largest entry of each is positive. All ten classes have weights: what is added to all of them changes no
    probability, and has the prior as its posterior. Chains start at a draw from the prior, N(0, I).

    Runs are scored on the 10,000 test images, and by the errors of moments: the truth is that of long HMC by
    `bench truth`.

    Source: ours. The data: Y. LeCun, "The MNIST database of handwritten digits".
    """

    version: ClassVar = 2  # before, it had no truth
    opaque: ClassVar = True
    prior_precision: ClassVar = 1.0
    few: ClassVar[int | None] = None  # rows in laws
    datasets: ClassVar = (*idx.MNIST_TRAIN, *idx.MNIST_TEST)
    steepest: ClassVar = 6554.4  # the largest eigenvalue of the Hessian at the mode; the least is 1, of the prior
    metrics: ClassVar = (*PREDICTIVE_METRICS, *MOMENT_METRICS)
    protocols: ClassVar = (
        Protocol(
            "minibatches",
            "batches of 500, 50 passes, half of them burn-in; ours",
            {"smoke": 24, "quick": 600, "paper": 6_000},
            burn_in=0.5,
        ),
    )

    batch: int | None = param(500, "[1, inf)", "n, images in a minibatch; none: all of them", source="ours")  # type: ignore[misc]

    def dim(self) -> int:
        return CLASSES * (COMPONENTS + 1)

    def terms(self) -> int:
        return self.few or 60_000

    def arrays(self, part: str) -> Mapping[str, NDArray[Any]]:
        images, classes = idx.MNIST_TRAIN if part == "train" else idx.MNIST_TEST
        return {
            "x": projected(idx.load(images)[: self.few]),
            "label": idx.load(classes)[: self.few].astype(np.int64),
        }

    def logits(self, theta: Tensor, rows: Rows) -> Tensor:
        import torch

        return torch.bmm(rows["x"].expand(len(theta), -1, -1), theta.view(len(theta), CLASSES, -1).mT)

    def grad(self, theta: Tensor, rows: Rows) -> Tensor:
        import torch

        label = rows["label"].expand(len(theta), -1)[..., None]
        slope = -self.logits(theta, rows).softmax(2)
        slope.scatter_add_(2, label, slope.new_ones(()).expand(label.shape)).mul_(rows["present"][..., None])
        return torch.bmm(slope.mT, rows["x"].expand(len(theta), -1, -1)).flatten(1)

    def curvature(self) -> float:
        return self.steepest

    def truth(self) -> Truth | None:
        """The shipped moments; on fewer rows nobody knows them."""
        return None if self.few else shipped_truth()

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        if self.truth() is None or problem.streams[0].holds_out:  # the truth is of all rows
            return PredictiveObserver(problem, chains, trajectory, cost)
        return PredictionsAndMoments(problem, chains, trajectory, cost)

    def for_laws(self) -> Self:
        small = type("SmallMnistLogistic", (type(self),), {"few": 60})
        task: Self = small(batch=None)
        return task

    def build(self, streams: Sequence[Streams], device: str) -> SoftmaxProblem:
        return SoftmaxProblem(self, streams, device)


class PredictionsAndMoments(PredictiveObserver):
    """`PredictiveObserver` with the errors of `MomentObserver`."""

    def __init__(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> None:
        super().__init__(problem, chains, trajectory, cost)
        self.moments = MomentObserver(problem.task.truth(), trajectory, cost)

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        super().observe(draws, weights, steps)
        self.moments.observe(draws, weights, steps)

    def outcome(self) -> Outcome:
        whole, errors = super().outcome(), self.moments.outcome()
        return Outcome({**whole.metrics, **errors.metrics}, {**whole.curves, **errors.curves}, whole.arrays)

    def state(self) -> dict[str, Tensor]:
        return super().state() | self.moments.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        super().load(state)
        self.moments.load(state)


@functools.cache
def shipped_truth() -> Truth:
    """Return the moments of `bench truth mnist-logistic` at version 1 of the task, with 7 digits."""
    return Truth.of_record(json.loads((FOLDER / "truth.json").read_text(encoding="utf-8")))


def projected(images: NDArray[np.uint8]) -> Array:
    """Return images (n, 28, 28) on the components, and a column of ones, (n, 41)."""
    mean, components = basis()
    parts = [part.reshape(len(part), -1) / 255 @ components - mean @ components for part in _stretches(images)]
    return np.column_stack([np.concatenate(parts), np.ones(len(images))])


@functools.cache
def basis() -> tuple[Array, Array]:
    """Return the mean image (784,) and the components (784, 40), each divided by its sd over the training images."""
    mean, *components = np.load(FOLDER / "components.npy").astype(np.float64)
    return mean, np.stack(components, axis=1)


def _stretches(rows: NDArray[Any]) -> Iterator[NDArray[Any]]:
    yield from np.array_split(rows, -(-len(rows) // 5_000))
