"""Bayesian logistic regression on a9a, the set of the first paper on SGLD, with a test set."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import param
from harness.tasks import DataProblem, Metric, Observer, Protocol
from tasks.datasets import libsvm
from tasks.regression.all_rows import AllRowsProblem
from tasks.regression.blr import Logistic, gradient
from tasks.regression.held_out import HELD_OUT_METRICS, HeldOutObserver
from tasks.regression.series import SERIES_METRICS, TEMPERATURE_METRICS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, Streams

    Array = NDArray[np.float64]
    Batch = dict[str, Tensor]

FEATURES = 123
CHUNK = 100
"""Draws predicted with at once: 13 MB of logits."""


class A9aProblem(AllRowsProblem):
    """The logistic potential."""

    def full(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """U (C,) and grad U (C, D) on all the data."""
        import torch

        rows = self.arrays["a"][: self.terms]
        margins = theta @ rows.T
        energy = theta.square().sum(1) / 2 - torch.nn.functional.logsigmoid(margins).sum(1)
        return energy, theta - (-margins).sigmoid() @ rows


@dataclass(frozen=True, kw_only=True)
class A9a(Logistic):
    """Income above 50,000 in the Adult census set: 32,561 rows, 123 binary covariates and bias; 16,281 rows to test.

    Covariates are taken as they are, 0 or 1. The first paper on SGLD has, as it is remembered (it was not at hand), a
    Laplace prior of scale 1, which has a kink, and minibatches of 10. Here the prior is N(0, I), as for the other
    logistic posteriors; lengths, burn-in and chains are ours too. Chains start at a draw from the prior.

    Accuracy and NLL on the test set are those of the posterior mean predictive, by up to 1,000 draws evenly spaced.

    Source: M. Welling, Y. W. Teh, "Bayesian Learning via Stochastic Gradient Langevin Dynamics", ICML 2011, 5.2.
    """

    datasets: ClassVar = (libsvm.A9A, libsvm.A9A_TEST)
    shape: ClassVar = (32_561, FEATURES + 1)
    record: ClassVar = Path(__file__).parent / "truth.json"
    protocols: ClassVar = (
        Protocol(
            "welling-teh",
            "batches of 10, 10 passes, half of them burn-in; prior and lengths are ours",
            {"smoke": 1_000, "quick": 8_000, "paper": 32_570},
            burn_in=0.5,
        ),
    )
    metrics: ClassVar[Sequence[Metric]] = (*HELD_OUT_METRICS, *SERIES_METRICS, *TEMPERATURE_METRICS)  # type: ignore[assignment]

    batch: int | None = param(
        10, "[1, inf)", "n, terms in a minibatch; none: all of them", source="Welling and Teh 2011, as remembered"
    )  # type: ignore[misc]

    def design(self) -> Array:
        return signed_design()

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        design, (rows, positive) = signed_design(), held_out()

        def probabilities(draws: Array) -> Array:
            p = predictive(rows, draws)
            return np.column_stack([1 - p, p])

        return HeldOutObserver(
            self.truth(), chains.stop - chains.start, trajectory, cost, axes=self.laplace.eigenvectors,
            probabilities=probabilities, labels=positive.astype(np.int64),
            gradients=500,  # each is a pass through the data
            gradient=lambda x: np.concatenate([gradient(design, p) for p in np.array_split(x, -(-len(x) // 50))]),
        )  # fmt: skip

    def build(self, streams: Sequence[Streams], device: str) -> A9aProblem:
        return A9aProblem(self, streams, device)


@functools.cache
def signed_design() -> Array:
    """The rows a_i (N, D) of the training part, the bias column last, each times its label."""
    covariates, labels = libsvm.load(libsvm.A9A, FEATURES)
    return np.asarray(labels[:, None] * np.column_stack([covariates, np.ones(len(labels))]))


@functools.cache
def held_out() -> tuple[Array, NDArray[np.bool_]]:
    """The test part: rows (M, D), the bias column last, and whether each is positive (M,)."""
    covariates, labels = libsvm.load(libsvm.A9A_TEST, FEATURES)
    return np.column_stack([covariates, np.ones(len(labels))]), labels > 0


def predictive(rows: Array, draws: Array) -> Array:
    """The mean over draws (S, D) of the probability that each row (M, D) is positive: (M,)."""
    total = np.zeros(len(rows))
    with np.errstate(over="ignore"):
        for start in range(0, len(draws), CHUNK):
            total += (1 / (1 + np.exp(-rows @ draws[start : start + CHUNK].T))).sum(axis=1)
    return total / len(draws)
