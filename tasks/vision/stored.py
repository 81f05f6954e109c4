"""Networks on images that lie whole on the device, as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.vision.augment import crop_and_flip
from tasks.vision.convolutional import ModuleClassifier

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.randomness import Streams
    from tasks.vision.convolutional import Batch, Model, Part


@dataclass(frozen=True)
class Images:
    """A set of images (n, H, W, channels) uint8 and their classes (n,) int64, which mean nothing for unseen sets."""

    pixels: Tensor
    labels: Tensor


class StoredClassifier(ModuleClassifier):
    """`ModuleClassifier` of sets of `Images`: "train", "test" and the unseen ones.

    Those of a training step are cropped by up to `reach` pixels to each side and flipped, in one pass on the device.
    """

    def __init__(
        self,
        model: Model,
        sets: Mapping[str, Images],
        streams: Sequence[Streams],
        device: str,
        *,
        batch: int,
        reach: int = 0,
        watched: Mapping[str, int | None] | None = None,
    ) -> None:
        labels = {name: sets[name].labels for name in ("train", "test")}
        unseen = [name for name in sets if name not in labels]
        super().__init__(model, labels, unseen, streams, device, batch=batch, reach=reach, watched=watched)
        self.pixels = {name: images.pixels.to(device) for name, images in sets.items()}

    def _batch(self, c: int, batch: Batch, size: int) -> Part:
        index = batch["index"][c, :size].to(self.device, non_blocking=True)
        pixels = self.pixels["train"][index]
        if self.reach:
            pixels = crop_and_flip(pixels, batch["shift"][c, :size], batch["flip"][c, :size], self.reach)
        return pixels, self.labels["train"][index]

    def _stretches(self, name: str, length: int) -> Iterator[Tensor]:
        yield from self.pixels[name].split(length)
