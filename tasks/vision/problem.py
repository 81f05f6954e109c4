"""What every image classification task is to samplers and to its observer: a potential with sets to predict."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness import ChainSequence, Problem, epochs

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Cost, Observer, Streams, Trajectory

    Batch = dict[str, Tensor]


class Classifier(Problem):
    """The posterior of a network's weights: one row of theta (C, D) a chain, no state in modules.

        U(theta) = -sum_{i=1..N} log p(y_i | x_i, theta) + |theta|^2 prior_precision / 2

    A minibatch is the next stretch of n in the chain's own permutation of the N images; m = ceil(N/n) of them are an
    epoch, the last one short. The sum over each is multiplied by m, so that the mean of an epoch's gradients is grad U
    (of the images as augmented). The usual loss is the *mean* over each batch, the short one included: there the last
    batch weighs as much as the others, here its share of the images, and the others N / (m n) as much as there.

    What a step meets comes from the streams "order" and "data", an epoch at a time, whatever the sampler:

        index  (steps, C, n) int64    rows of the training set, N in the empty places of a short batch
        shift  (steps, C, n, 2) uint8 and flip (steps, C, n) bool, where images are augmented (`reach` > 0)

    classes  K
    labels   name of an evaluation set ("test", "train") -> classes (n,)
    unseen   names of the sets whose classes the network does not know
    buffers  running statistics of normalisation, (C, B) float32; B = 0 without. Gradients on a batch update them,
             and a draw is theta and buffers: `block_limit` is 1 where there are some
    index_device  where the indices of batches are put: the problem's device, unless it says otherwise
    """

    classes: int
    labels: Mapping[str, Tensor]
    unseen: Sequence[str] = ()
    buffers: Tensor
    index_device: str

    def __init__(self, streams: Sequence[Streams], device: str, *, terms: int, batch: int, reach: int = 0) -> None:
        self.streams = list(streams)
        self.device = self.index_device = device
        self.terms = terms
        self.batch = batch
        self.batches = -(-terms // batch)
        self.reach = reach
        self._order = epochs(streams, terms, batch)
        self._changes = ChainSequence([s.numpy("data") for s in streams], self._draw_changes) if reach else None

    def _draw_changes(self, generator: np.random.Generator) -> Tensor:
        """An epoch's shifts down and right, in 0 .. 2 reach, and flips, (m, n, 3) uint8."""
        import torch

        shape = (self.batches, self.batch)
        shift = generator.integers(0, 2 * self.reach + 1, (*shape, 2), dtype=np.uint8)
        flip = generator.integers(0, 2, (*shape, 1), dtype=np.uint8)
        return torch.from_numpy(np.concatenate([shift, flip], axis=2))

    def draw_batches(self, steps: int) -> Batch:
        index = self._order.take(steps)
        batch = {"index": index.to(self.index_device)}
        if self._changes is not None:
            changes = self._changes.take(steps).to(self.device)
            batch |= {"shift": changes[..., :2], "flip": changes[..., 2] > 0}
        return batch

    @abstractmethod
    def predict(self, theta: Tensor, rows: slice, name: str) -> Iterator[Tensor]:
        """log p (C, m, K) float32 of successive stretches of the set `name`, in order, in evaluation mode.

        theta (C, D) are draws of the chains `rows`, whose buffers are used.
        """

    def statistics_of(self, theta: Tensor, batch: Batch) -> Tensor:
        """The statistics (B,) of normalisation on one batch of chain 0 alone, for the weights theta (D,)."""
        return self.buffers[0]

    def on_line(self, ends: Tensor, statistics: Tensor, positions: Sequence[float]) -> dict[str, NDArray[np.float64]]:
        """Test errors between two draws: `tasks.vision.line.errors_on_line`."""
        from tasks.vision.line import errors_on_line

        return errors_on_line(self, ends, statistics, positions)

    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        from tasks.vision.observer import ClassifierObserver

        return ClassifierObserver(self, rows, trajectory, cost)

    def state(self) -> dict[str, Tensor]:
        state = {f"order/{name}": leaf for name, leaf in self._order.state().items()}
        if self._changes is not None:
            state |= {f"changes/{name}": leaf for name, leaf in self._changes.state().items()}
        return state | {"buffers": self.buffers}

    def load(self, state: Mapping[str, Tensor]) -> None:
        for name, sequence in (("order/", self._order), ("changes/", self._changes)):
            if sequence is not None:
                sequence.load({n.removeprefix(name): leaf for n, leaf in state.items() if n.startswith(name)})
        self.buffers.copy_(state["buffers"])
