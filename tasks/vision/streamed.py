"""Networks on images that are read from disk while they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import torch

from tasks.vision.convolutional import Images, ModuleClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Streams
    from tasks.datasets.imagefolder import ImageFolder
    from tasks.vision.convolutional import Batch, Model, Part

    Pixels = Future[NDArray[np.uint8]]

AHEAD = 3
"""Batches that are decoded before they are asked for."""


class StreamedClassifier(ModuleClassifier):
    """`ModuleClassifier` of two `ImageFolder`s, "train" and "test"; `chosen` are the test images that are used.

    Every image of a training step has a seed from its chain's "data" stream, from which its crop and flip are drawn, so
    nothing depends on how many threads decode. They are threads since decoding runs outside Python's lock, and since
    they end with the run. What comes next is known from the order of the epoch, and decoded ahead.

        seed    (steps, C, n) int64
        pixels  (steps, C, n, 224, 224, 3) uint8, on a GPU in place of `seed`, where the batch is of a single step
    """

    def __init__(
        self,
        model: Model,
        folders: Mapping[str, ImageFolder],
        chosen: NDArray[np.int64],
        streams: Sequence[Streams],
        device: str,
        *,
        batch: int,
        threads: int,
        watched: Mapping[str, int | None] | None = None,
    ) -> None:
        self.folders = folders
        self.rows = {"train": np.arange(len(folders["train"].paths)), "test": chosen}
        labels = {name: torch.from_numpy(folders[name].labels[rows]) for name, rows in self.rows.items()}
        sets = {name: Images(torch.empty(0), found) for name, found in labels.items()}  # pixels are read when needed
        super().__init__(model, sets, streams, device, batch=batch, reach=1, watched=watched)
        self.pool = ThreadPoolExecutor(threads, "decode")
        self.pending: dict[bytes, list[Pixels]] = {}

    def _draw_changes(self, generator: np.random.Generator) -> Tensor:
        """An epoch's seeds, (m, n)."""
        return torch.from_numpy(generator.integers(0, 2**63, (self.batches, self.batch), dtype=np.int64))

    def draw_batches(self, steps: int) -> Batch:
        assert self._changes is not None
        batch = {"index": self._order.take(steps), "seed": self._changes.take(steps)}
        for index, seed in zip(self._order.ahead(AHEAD), self._changes.ahead(AHEAD), strict=True):
            for c in range(len(index)):
                self._decode(index[c], seed[c])
        if self.device == "cpu" or steps > 1:
            return batch
        images = [
            self._images(index, seed) for index, seed in zip(batch["index"][0], batch.pop("seed")[0], strict=True)
        ]
        whole = self._whole(batch)
        return whole | {"pixels": torch.stack(images)[None].to(self.device, non_blocking=True)}

    def _images(self, index: Tensor, seed: Tensor) -> Tensor:
        """The images of one chain's batch (n, 224, 224, 3), without empty places, on the CPU."""
        return torch.from_numpy(np.stack([image.result() for image in self._decode(index, seed)]))

    def _decode(self, index: Tensor, seed: Tensor) -> list[Pixels]:
        """The images of one chain's batch, under way; batches that nobody asked for are forgotten, oldest first."""
        key = seed.numpy().tobytes()
        if key not in self.pending:
            train = self.folders["train"]
            pairs = [(int(i), int(s)) for i, s in zip(index, seed, strict=True) if i < self.terms]
            self.pending[key] = [self.pool.submit(train.training, i, s) for i, s in pairs]
            while len(self.pending) > 2 * (AHEAD + 1) * len(self.streams):
                for forgotten in self.pending.pop(next(iter(self.pending))):
                    forgotten.cancel()
        return self.pending[key]

    def _batch(self, c: int, batch: Batch, size: int) -> Part:
        index = batch["index"][c]
        pixels = batch["pixels"][c] if "pixels" in batch else self._images(index, batch["seed"][c]).to(self.device)
        return pixels, self.labels["train"][index[:size].to(self.device)]

    def _stretches(self, name: str, length: int) -> Iterator[Tensor]:
        rows, folder = self.rows[name], self.folders[name]
        parts = [rows[start : start + length] for start in range(0, len(rows), length)]
        coming: list[list[Pixels]] = []
        for part in (*parts, None):  # the next one is under way while one is looked at
            if part is not None:
                coming.append([self.pool.submit(folder.evaluation, int(i)) for i in part])
            if len(coming) == 2 or (part is None and coming):
                yield torch.from_numpy(np.stack([image.result() for image in coming.pop(0)])).to(self.device)
