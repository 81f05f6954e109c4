"""A wide network on MNIST that a prior of two widths makes sparse."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from harness import param
from harness.tasks import Layout, Metric, NetworkTask, Protocol
from tasks.datasets import idx
from tasks.mlp import MLPProblem
from tasks.networks.metrics import classifier_metrics
from tasks.vision.dense import DenseTask
from tasks.vision.notmnist import EPOCH, digits, moments

if TYPE_CHECKING:
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, DataProblem, Streams
    from tasks.networks.observer import ClassifierObserver
    from tasks.vision.dense import Data

    Batch = dict[str, Tensor]

STRETCH = 131_072
"""Weights whose prior is computed at once: they stay in the cache from one operation to the next: 2.9 ms, not 3.8."""

SHARE = 0.4
"""Of a run with the normal prior: 100 of 250 epochs."""


@dataclass(frozen=True, kw_only=True)
class MnistSparse(DenseTask):
    """MNIST by a 784-800-800-10 ReLU network, first with the prior N(0, I), then with one that makes weights small:

        pi(w) = lambda N(w; 0, slab) + (1 - lambda) N(w; 0, spike),    lambda = 1e-7

    of each connection weight w (biases keep N(0, 1)). A weight counts as kept where the slab explains it better,

        |w| >= sqrt(2 log((1 - lambda)/lambda sqrt(slab/spike)) slab spike / (slab - spike)) = 0.0199642,

    and `sparsity` is the share of those. test_accuracy and train_accuracy are means over the ends of the last five
    epochs. U on all the data, and what a law or a truth is of, has the second prior.

    Source: S. Kim, Q. Song, F. Liang, "Stochastic gradient Langevin dynamics with adaptive drifts", 2022, 5.2, eq. 5.
    """

    features: ClassVar = 784
    classes: ClassVar = 10
    size: ClassVar = 60_000
    observed: ClassVar[Mapping[str, Any]] = {"last": None, "train": True, "average": 5}
    in_laws: ClassVar = {**DenseTask.in_laws, "dense_steps": 0}
    datasets: ClassVar = (*idx.MNIST_TRAIN, *idx.MNIST_TEST)
    provides: ClassVar = NetworkTask.provides  # its prior is not normal
    metrics: ClassVar = (
        *classifier_metrics(last=None, train=True),
        Metric("sparsity", "min", "%", "connection weights that are kept, mean over the draws"),
    )
    protocols: ClassVar = (
        Protocol(
            "adaptive-drift",
            "250 epochs of batches of 100, 100 of them with a normal prior; the ends of the last five",
            {"smoke": EPOCH // 2, "quick": 5 * EPOCH, "paper": 250 * EPOCH},
            seeds=(0, 1, 2),
            thin=EPOCH,
            settings={"task.dense_steps": 100 * EPOCH},
            budget_settings={
                "smoke": {"task.dense_steps": round(SHARE * EPOCH / 2), "task.width": 40, "run.thin": 60},
                "quick": {"task.dense_steps": 2 * EPOCH},
            },
        ),
    )

    width: int = param(800, "[1, inf)", "units of a hidden layer", source="Kim et al. 2022, 5.2")
    depth: int = param(2, "[1, inf)", "hidden layers", source="Kim et al. 2022, 5.2")
    batch: int = param(100, "[1, inf)", "n, images in a minibatch", source="Kim et al. 2022, 5.2")
    prior_precision: float = param(1.0, "[0, inf)", "of the normal prior", source="Kim et al. 2022, 5.2")  # type: ignore[misc]
    dense_steps: int = param(0, "[0, inf)", "steps with the normal prior", source="none: the sparse posterior")
    inclusion: float = param(1e-7, "(0, 1)", "lambda, mass of the slab", source="Kim et al. 2022, 5.2")
    slab: float = param(0.02, "(0, inf)", "variance of weights that are kept", source="Kim et al. 2022, 5.2")
    spike: float = param(1e-5, "(0, inf)", "variance of the others", source="Kim et al. 2022, 5.2")

    @property
    def log_odds(self) -> float:
        """log of (1 - lambda) N(0; 0, spike) over lambda N(0; 0, slab)."""
        return math.log((1 - self.inclusion) / self.inclusion) + math.log(self.slab / self.spike) / 2

    @property
    def threshold(self) -> float:
        """The size of a weight from which the slab explains it better."""
        return math.sqrt(2 * self.log_odds * self.slab * self.spike / (self.slab - self.spike))

    def read(self, name: str) -> Data:
        return digits(name)

    def moments(self) -> tuple[float, float]:
        return moments()

    def log_prior(self, theta: Tensor) -> Tensor:
        """The second one."""
        import torch

        square = theta.square() / 2
        spike = math.log1p(-self.inclusion) - math.log(2 * math.pi * self.spike) / 2 - square / self.spike
        slab = math.log(self.inclusion) - math.log(2 * math.pi * self.slab) / 2 - square / self.slab
        normal = self.prior_precision / 2 * theta.square()
        return -torch.where(self.connections(theta.device), -torch.logaddexp(spike, slab), normal).sum(1)

    def prior_gradient(self, theta: Tensor) -> Tensor:
        """With w = theta_i and r = 1 / (1 + exp(log_odds - w^2 (1/spike - 1/slab) / 2)), the odds of the slab,

        -d log pi / d theta_i = theta_i (r / slab + (1 - r) / spike).
        """
        import torch

        narrow, wide = 1 / self.spike, 1 / self.slab
        gradient = torch.empty_like(theta)
        for slope, part in zip(gradient.split(STRETCH, 1), theta.split(STRETCH, 1), strict=True):
            odds = torch.square(part, out=slope).mul_((narrow - wide) / 2).sub_(self.log_odds).sigmoid_()
            odds.mul_(wide - narrow).add_(narrow).mul_(part)
        layout = self.layout()
        for bias, at in zip(layout.split(gradient).values(), layout.split(theta).values(), strict=True):
            if bias.ndim == 2:
                torch.mul(at, self.prior_precision, out=bias)
        return gradient

    def connections(self, device: Any) -> Tensor:
        """Which coordinates are connection weights, (D,)."""
        return _connections(self.layout(), str(device))

    def kept(self, theta: Tensor) -> Tensor:
        """The share of connection weights of each chain that the slab explains better, (C,)."""
        import torch

        weights = self.connections(theta.device)
        large = (theta.abs() >= self.threshold) & weights
        return large.sum(1, dtype=torch.float64) / weights.sum()

    def observer(
        self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost, **further: Any
    ) -> ClassifierObserver:
        return super().observer(problem, chains, trajectory, cost, share_kept=self.kept, **further)

    def build(self, streams: Sequence[Streams], device: str) -> SparseProblem:
        return SparseProblem(self, streams, device)


@functools.lru_cache(maxsize=4)
def _connections(layout: Layout, device: str) -> Tensor:
    import torch

    return torch.cat([torch.full((block.size,), len(block.shape) == 2, device=device) for block in layout.blocks])


class SparseProblem(MLPProblem):
    """The prior changes after `dense_steps` steps, so blocks are of one step.

    In the second stage the rows stand in a batch twice, as `index` and as `second`, so that a batch tells by itself
    which stage it is of. All the data are under the second prior.
    """

    task: MnistSparse

    def __init__(self, task: MnistSparse, streams: Sequence[Streams], device: str) -> None:
        import torch

        super().__init__(task, streams, device)
        self.block_limit = 1
        self.under_normal_prior = ~task.connections(device)
        self.step = torch.zeros(len(streams), dtype=torch.int64)

    def draw_batches(self, steps: int) -> Batch:
        self.step = self.step + steps
        batch = super().draw_batches(steps)
        return batch if int(self.step[0]) <= self.task.dense_steps else batch | {"second": batch["index"]}

    def prior(self, theta: Tensor, batch: Batch | None) -> Tensor:
        first = batch is not None and "second" not in batch
        return self.task.prior_precision / 2 * theta.square().sum(1) if first else super().prior(theta, batch)

    def prior_gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        first = batch is not None and "second" not in batch
        return self.task.prior_precision * theta if first else super().prior_gradient(theta, batch)

    def state(self) -> dict[str, Tensor]:
        return super().state() | {"step": self.step}

    def load(self, state: Mapping[str, Tensor]) -> None:
        super().load(state)
        self.step = state["step"].cpu().clone()
