"""Networks on images that are read from disk while they are used."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import torch

from harness import DataError, UsageError
from harness.tasks import NetworkProblem
from tasks.datasets.imagefolder import SIDE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.tasks import Streams
    from tasks.vision.imagenet import ImageNet

    Batch = dict[str, Tensor]


AHEAD = 3
"""Batches that are decoded before they are asked for."""


@dataclass(frozen=True)
class Decoded:
    """Images (n, 224, 224, 3) that threads decode into memory that a GPU reads without stopping anything: pinned."""

    pixels: Tensor
    under_way: Sequence[Future[None]]

    def whole(self) -> Tensor:
        for image in self.under_way:
            image.result()
        return self.pixels

    def cancel(self) -> None:
        for image in self.under_way:
            image.cancel()


class StreamedProblem(NetworkProblem):
    """`NetworkProblem` of images in two folders.

    Every image of a training step has a seed from its chain's "data" stream, from which its crop and flip are drawn, so
    nothing depends on how many threads decode. They are threads since decoding runs outside Python's lock, and since
    they end with the run. What comes next is known from the order of the epoch, and decoded ahead.

        change  (steps, C, n) int64: seeds
        pixels  (steps, C, n, 224, 224, 3) uint8, on a GPU in place of `change`, where the batch is of a single step
    """

    task: ImageNet
    stretch_on_gpu = NetworkProblem.stretch  # images are large

    def __init__(self, task: ImageNet, streams: Sequence[Streams], device: str) -> None:
        if streams[0].holds_out:
            raise UsageError("imagenet cannot be tuned: it has no training images held out for that")
        self.folders = {name: task.files(name) for name in ("train", "test")}
        train, test = (self.folders[name].classes for name in ("train", "test"))
        if other := sorted(set(train) ^ set(test)):
            raise DataError(
                f"{self.folders['train'].root} and {self.folders['test'].root} have different folders of classes: "
                f"{other[0]!r:.80} is in one of them only, so that the classes would have different numbers"
            )
        self.used = {name: task.rows(name, folder) for name, folder in self.folders.items()}
        super().__init__(task, streams, device)
        self.pool = ThreadPoolExecutor(task.threads, "decode")
        self.pending: dict[bytes, Decoded] = {}

    def set(self, name: str) -> dict[str, Tensor]:
        """The labels; pixels are read when they are needed."""
        return {"label": torch.from_numpy(self.folders[name].labels[self.used[name]]).to(self.device)}

    def first_rows(self, count: int) -> Self:
        few = super().first_rows(count)
        few.used = {name: rows[:count] for name, rows in self.used.items()}
        return few

    def draw_batches(self, steps: int) -> Batch:
        assert self.epochs is not None
        assert self._changes is not None
        batch = {"index": self.epochs.take(steps), "change": self._changes.take(steps)}
        for index, seed in zip(self.epochs.ahead(AHEAD), self._changes.ahead(AHEAD), strict=True):
            for c in range(len(index)):
                self._decode(index[c], seed[c])
        if self.device == "cpu" or steps > 1:
            return batch
        images = [
            self._images(index, seed).to(self.device, non_blocking=True)
            for index, seed in zip(batch["index"][0], batch["change"][0], strict=True)
        ]
        size = len(images[0])
        return {
            "index": self.epochs.sent(batch["index"], self.device)[:, :, :size],
            "pixels": torch.stack(images)[None],
        }

    def _images(self, index: Tensor, seed: Tensor) -> Tensor:
        """The images of one chain's batch (n, 224, 224, 3), without empty places, on the CPU."""
        return self._decode(index, seed).whole()

    def _decode(self, index: Tensor, seed: Tensor) -> Decoded:
        """The images of one chain's batch, under way; batches that nobody asked for are forgotten, oldest first."""
        key = seed.numpy().tobytes()
        if key not in self.pending:
            train = self.folders["train"]
            pairs = [(int(i), int(s)) for i, s in zip(index, seed, strict=True) if i < self.terms]
            self.pending[key] = self._started(functools.partial(train.training, i, s) for i, s in pairs)
            while len(self.pending) > 2 * (AHEAD + 1) * len(self.streams):
                self.pending.pop(next(iter(self.pending))).cancel()
        return self.pending[key]

    def _started(self, images: Iterable[Callable[[], NDArray[np.uint8]]]) -> Decoded:
        images = list(images)
        pixels = torch.empty((len(images), SIDE, SIDE, 3), dtype=torch.uint8, pin_memory=self.device != "cpu")

        def write(target: Tensor, image: Callable[[], NDArray[np.uint8]]) -> None:
            target.numpy()[:] = image()

        return Decoded(pixels, [self.pool.submit(write, *pair) for pair in zip(pixels, images, strict=True)])

    def batch_rows(self, c: int, batch: Batch, size: int) -> tuple[Tensor, Tensor]:
        index = batch["index"][c]
        pixels = batch["pixels"][c] if "pixels" in batch else self._images(index, batch["change"][c]).to(self.device)
        return pixels, self.labels["train"][index[:size].to(self.device)]

    def stretches(self, name: str, length: int) -> Iterator[Tensor]:
        rows, folder = self.used[name], self.folders[name]
        parts = [rows[start : start + length] for start in range(0, len(rows), length)]
        coming: list[Decoded] = []
        for part in (*parts, None):  # the next one is under way while one is looked at
            if part is not None:
                coming.append(self._started(functools.partial(folder.evaluation, int(i)) for i in part))
            if len(coming) == 2 or (part is None and coming):
                yield coming.pop(0).whole().to(self.device, non_blocking=True)
