"""The potential of a fully connected network, all chains in one product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from tasks.vision.problem import Classifier

if TYPE_CHECKING:
    from torch import Tensor

    from harness import Cost, Observer, Streams, Trajectory
    from tasks.networks.mlp import MLP
    from tasks.vision.dense_task import DenseTask

    Batch = dict[str, Tensor]

STRETCH = 500
"""Inputs that are taken through the network at once where all of a set are."""


class DenseClassifier(Classifier):
    """`Classifier` of an `MLP` on inputs that are rows of numbers.

    Inputs lie on the device as the data set has them (bytes, for images) and are transformed as they are used:
    (input - shift) / scale. The cross-entropy of a batch is summed over its inputs and multiplied by m, the batches of
    an epoch; the prior is added on the flat vector. Training inputs are not augmented. The rows of a chain's batch
    beyond a short one's end are computed and weigh nothing. The compiler leaves them alone: a few large products gain
    nothing.

    Where the task's prior changes after `first_steps` steps, blocks are of one step. In the second stage the rows stand
    in a batch twice, as `index` and as `second`, so that a batch tells by itself which stage it is of. All the data are
    under the second prior.
    """

    def __init__(self, task: DenseTask, network: MLP, streams: Sequence[Streams], device: str) -> None:
        super().__init__(streams, device, terms=task.terms(), batch=task.batch_terms())
        self.task, self.network = task, network
        self.dim, self.layout = network.dim, network.layout
        self.classes = task.classes
        self.unseen = task.unseen
        self.dtype: torch.dtype = getattr(torch, task.dtype)
        read = {name: task.data(name) for name in ("train", "test", *task.unseen)}
        self.inputs = {name: torch.from_numpy(x).to(device) for name, (x, _) in read.items()}
        self.labels = {name: torch.from_numpy(read[name][1]).to(device) for name in ("train", "test")}
        shift, scale = task.standard()
        self.shift = torch.as_tensor(shift, device=device, dtype=self.dtype)
        self.scale = torch.as_tensor(scale, device=device, dtype=self.dtype)
        self.buffers = torch.zeros((len(streams), 0), device=device)
        self.step = torch.zeros(len(streams), dtype=torch.int64)
        if task.first_steps() is not None:
            self.block_limit = 1
            self.under_normal_prior = task.under_normal_prior(device)

    def initial(self) -> Tensor:
        rows = [self.network.start(s.torch("init")) for s in self.streams]
        return torch.stack(rows).to(self.device, self.dtype)

    def draw_batches(self, steps: int) -> Batch:
        self.step = self.step + steps
        batch = {"index": super().draw_batches(steps)["index"]}
        first = self.task.first_steps()
        return batch if first is None or int(self.step[0]) <= first else batch | {"second": batch["index"]}

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        total = self.prior(theta, batch)
        for x, y, weights in self._parts(batch):
            total = total + _loss(self.network.logits(theta, x).log_softmax(2), y, weights)
        return total

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        total, gradient = self.prior(theta, batch), self.prior_gradient(theta, batch)
        for logs, y, weights, pulled in self._pulled(theta, batch):
            total = total + _loss(logs, y, weights)
            gradient = gradient + pulled
        return total, gradient

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        gradient = self.prior_gradient(theta, batch)
        for *_, pulled in self._pulled(theta, batch):
            gradient = gradient + pulled
        return gradient

    def _pulled(self, theta: Tensor, batch: Batch | None) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """log p (C, n, K), classes and weights of the terms, and the gradient of their part of U (C, D)."""
        for x, y, weights in self._parts(batch):
            logits, pullback = self.network.logits_and_pullback(theta, x)
            logs = logits.log_softmax(2)
            truth = torch.nn.functional.one_hot(y, self.classes)
            yield logs, y, weights, pullback((logs.exp() - truth) * weights[..., None])

    def prior(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """-log p(theta) (C,) but for a constant."""
        return self.task.minus_log_prior(theta, first=self._first(batch))

    def prior_gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Its gradient (C, D)."""
        return self.task.prior_gradient(theta, first=self._first(batch))

    @staticmethod
    def _first(batch: Batch | None) -> bool:
        return batch is not None and "second" not in batch

    def _parts(self, batch: Batch | None) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Inputs (C, n, inputs), classes and weights of the terms (C, n); C = 1 where all chains share them."""
        x, y = self.inputs["train"], self.labels["train"]
        if batch is not None:
            index = batch["index"]
            weights = self.batches * (index < self.terms).to(self.dtype)
            rows = index.clamp(max=self.terms - 1)
            yield self._read(x[rows]), y[rows], weights
            return
        for start in range(0, self.terms, STRETCH):
            some = slice(start, start + STRETCH)
            yield self._read(x[some]), y[None, some], torch.ones((), dtype=self.dtype, device=x.device).expand(1, 1)

    def _read(self, x: Tensor) -> Tensor:
        return (x.to(self.dtype) - self.shift) / self.scale

    @torch.no_grad()
    def predict(self, theta: Tensor, rows: slice, name: str) -> Iterator[Tensor]:
        for x in self.inputs[name].split(STRETCH):
            yield self.network.logits(theta, self._read(x)).log_softmax(2).float()

    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        return self.task.watch(self, rows, trajectory, cost)

    def state(self) -> dict[str, Tensor]:
        return super().state() | ({} if self.task.first_steps() is None else {"step": self.step})

    def load(self, state: Mapping[str, Tensor]) -> None:
        super().load(state)
        if "step" in state:
            self.step = state["step"].cpu().clone()


def _loss(logs: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of -log p of the true classes, (C,)."""
    truth = logs.gather(2, y.expand(len(logs), -1)[..., None])[..., 0]
    return -(truth * weights).sum(1)
