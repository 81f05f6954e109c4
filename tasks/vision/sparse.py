"""The potential of a network whose prior changes once during a run, and what counts its weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from tasks.vision.dense import DenseClassifier
from tasks.vision.observer import ClassifierObserver

if TYPE_CHECKING:
    from torch import Tensor

    from harness import Cost, Outcome, Trajectory
    from harness.contracts.randomness import Streams
    from tasks.networks.mlp import MLP
    from tasks.vision.mnist_sparse import MnistSparse

    Batch = dict[str, Tensor]


class SparseClassifier(DenseClassifier):
    """`DenseClassifier` with the normal prior in the first `dense_steps` steps and the one of two widths after them.

    With w^2 = theta_i^2 and r = 1 / (1 + exp(log_odds - w^2 (1/spike - 1/slab) / 2)), the odds of the slab,

        -d log pi / d theta_i = theta_i (r / slab + (1 - r) / spike).

    Which prior a batch is under is that of the step it was drawn for: blocks are of one step. In the second stage
    its rows stand in it twice, as `index` and as `sparse`, so that a batch tells by itself which stage it is of.
    """

    block_limit = 1

    def __init__(self, task: MnistSparse, network: MLP, streams: Sequence[Streams], device: str) -> None:
        super().__init__(task, network, streams, device)
        self.sparse_task = task
        places = [torch.full((n,), k % 2 == 0, device=device) for k, n in enumerate(network.splits)]
        self.connections = torch.cat(places)
        self.under_normal_prior = ~self.connections  # in the second stage, and where all the data are meant
        self.step = torch.zeros(len(streams), dtype=torch.int64)

    def draw_batches(self, steps: int) -> Batch:
        self.step = self.step + steps
        batch = super().draw_batches(steps)
        if int(self.step[0]) <= self.sparse_task.dense_steps:
            return batch
        return batch | {"sparse": batch["index"]}

    @staticmethod
    def _sparse(batch: Batch | None) -> bool:
        return batch is None or "sparse" in batch

    def prior(self, theta: Tensor, batch: Batch | None) -> Tensor:
        normal = self.sparse_task.prior_precision / 2 * theta.square()
        if not self._sparse(batch):
            return normal.sum(1)
        task = self.sparse_task
        square = theta.square() / 2
        spike = math.log1p(-task.inclusion) - math.log(2 * math.pi * task.spike) / 2 - square / task.spike
        slab = math.log(task.inclusion) - math.log(2 * math.pi * task.slab) / 2 - square / task.slab
        return torch.where(self.connections, -torch.logaddexp(spike, slab), normal).sum(1)

    def prior_gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        task = self.sparse_task
        if not self._sparse(batch):
            return task.prior_precision * theta
        narrow, wide = 1 / task.spike, 1 / task.slab
        odds = theta.square().mul_((narrow - wide) / 2).sub_(task.log_odds).sigmoid_()
        each = odds.mul_(narrow - wide).neg_().add_(narrow)
        return theta * torch.where(self.connections, each, task.prior_precision)

    def kept(self, theta: Tensor) -> Tensor:
        """The share of connection weights of each chain that the slab explains better, (C,)."""
        large = (theta.abs() >= self.sparse_task.threshold) & self.connections
        return large.sum(1, dtype=torch.float64) / self.connections.sum()

    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> SparseObserver:
        return SparseObserver(self, rows, trajectory, cost, **self.sparse_task.watched())

    def state(self) -> dict[str, Tensor]:
        return super().state() | {"step": self.step}

    def load(self, state: Mapping[str, Tensor]) -> None:
        super().load(state)
        self.step = state["step"].cpu().clone()


class SparseObserver(ClassifierObserver):
    """`ClassifierObserver` that counts the weights of the averaged draws too: sparsity, in percent."""

    problem: SparseClassifier

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self.tensors["kept"] = self._zeros(1)

    def _observe(self, theta: Tensor, weight: Tensor) -> None:
        if int(self.tensors["seen"]) >= self.first_averaged:
            self.tensors["kept"] += (weight * self.problem.kept(theta)).sum()
        super()._observe(theta, weight)

    def outcome(self) -> Outcome:
        found = super().outcome()
        share = 100 * float(self.tensors["kept"] / self.tensors["weight"])
        return replace(found, metrics={**found.metrics, "sparsity": share}) if found.metrics else found
