"""The potential of a torch module, convolutional or not, chain by chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tasks.vision.augment import crop_and_flip, normalise
from tasks.vision.observer import ClassifierObserver
from tasks.vision.problem import Classifier

if TYPE_CHECKING:
    from torch import Tensor

    from harness import Cost, Streams, Trajectory
    from tasks.networks.flat import FlatModule

    Batch = dict[str, Tensor]
    Part = tuple[Tensor, Tensor]

STRETCH = 500
"""Images that are predicted at once."""


@dataclass(frozen=True)
class Images:
    """A set of images (n, H, W, channels) uint8 and their classes (n,) int64, which mean nothing for unseen sets."""

    pixels: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Model:
    """How images become a loss.

    network    of so many classes
    mean, sd   of each channel, for images of numbers in [0, 1]
    prior_precision  of all weights
    precision  "float32", which stands for theta's own, or "bfloat16": autocast, with theta, gradient and prior as ever
    dtype      theta's
    """

    network: FlatModule
    classes: int
    mean: Sequence[float]
    sd: Sequence[float]
    prior_precision: float
    precision: str = "float32"
    dtype: torch.dtype = torch.float32


class ModuleClassifier(Classifier):
    """`Classifier` of a module, one chain after the other: the chains of a convolution share no kernel.

    On a batch the *mean* cross-entropy is differentiated, under autocast where asked, and the flat gradient multiplied
    by the number of images that it stands for afterwards, in theta's precision; then the prior is added. The full U is
    of the images as they are, in stretches; batch normalisation uses each stretch's own statistics, as in training,
    and leaves the running ones alone.

    A module is no code that could be compiled along with the sampler's step: the task is `opaque`. Images lie whole on
    the device, as bytes: `sets` are "train", "test" and the unseen ones. Those of a training step are cropped by up to
    `reach` pixels to each side and flipped. `watched` are arguments of `ClassifierObserver`.
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
        super().__init__(streams, device, terms=len(sets["train"].labels), batch=batch, reach=reach)
        self.index_device = "cpu"  # how many images there are is read at every step, and must not wait for a GPU
        self.model = model
        self.mean = torch.tensor(model.mean, dtype=model.dtype, device=device)
        self.sd = torch.tensor(model.sd, dtype=model.dtype, device=device)
        self.network = model.network
        self.dim, self.layout = model.network.dim, model.network.layout
        self.classes = model.classes
        self.labels = {name: sets[name].labels.to(device) for name in ("train", "test")}
        self.pixels = {name: images.pixels.to(device) for name, images in sets.items()}
        self.unseen = [name for name in sets if name not in self.labels]
        self.watched = watched or {}
        starts = [self.network.start(s.torch("init")) for s in streams]
        self._start = torch.stack([weights for weights, _ in starts]).to(device, model.dtype)
        self.buffers = torch.stack([statistics for _, statistics in starts]).to(device, model.dtype)
        self.block_limit = 1 if self.network.buffer_dim else None

    def draw_batches(self, steps: int) -> Batch:
        return self._whole(super().draw_batches(steps))

    def _whole(self, batch: Batch) -> Batch:
        """On a GPU, a single step's batch as it will be used, without empty places: the step may be recorded."""
        if self.device == "cpu" or len(batch["index"]) > 1:
            return batch
        size = int((batch["index"][0, 0] < self.terms).sum())
        return {name: leaf[:, :, :size].to(self.device, non_blocking=True) for name, leaf in batch.items()}

    def _batch(self, c: int, batch: Batch, size: int) -> Part:
        """The images of chain c's batch as a training step sees them, and their classes; `size` of them."""
        index = batch["index"][c, :size].to(self.device, non_blocking=True)
        pixels = self.pixels["train"][index]
        if self.reach:
            pixels = crop_and_flip(pixels, batch["shift"][c, :size], batch["flip"][c, :size], self.reach)
        return pixels, self.labels["train"][index]

    def _stretches(self, name: str, length: int) -> Iterator[Tensor]:
        """The images of a set as they are, in order, so many at a time."""
        yield from self.pixels[name].split(length)

    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> ClassifierObserver:
        return ClassifierObserver(self, rows, trajectory, cost, **self.watched)  # type: ignore[arg-type]

    def initial(self) -> Tensor:
        return self._start.clone()

    @torch.no_grad()
    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        losses = []
        for c, x in enumerate(theta):
            parts = [self._mean_loss(c, x, part, update=False) * scale for scale, part in self._parts(c, batch)]
            losses.append(torch.stack(parts).sum())
        return torch.stack(losses) + self._prior(theta)

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        losses, gradient = self._differentiate(theta, batch)
        return losses + self._prior(theta), gradient

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        return self._differentiate(theta, batch)[1]

    def _prior(self, theta: Tensor) -> Tensor:
        return self.model.prior_precision / 2 * theta.detach().square().sum(1)

    def _differentiate(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        """The likelihood's part of U (C,), and grad U (C, D)."""
        found = [self._differentiate_chain(c, x.detach(), batch) for c, x in enumerate(theta)]
        losses = torch.stack([loss for loss, _ in found])
        return losses, found[0][1][None] if len(found) == 1 else torch.stack([slope for _, slope in found])

    def _differentiate_chain(self, c: int, x: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        weights = x.requires_grad_()
        losses: list[Tensor] = []
        gradient: Tensor | None = None
        for scale, part in self._parts(c, batch):
            with torch.enable_grad():
                mean = self._mean_loss(c, weights, part, update=batch is not None)
                (slope,) = torch.autograd.grad(mean, weights)
            losses.append(mean.detach() * scale)
            slope = slope.mul_(scale)
            gradient = slope if gradient is None else gradient.add_(slope)
        assert gradient is not None
        return torch.stack(losses).sum(), gradient.add_(x.detach(), alpha=self.model.prior_precision)

    def _parts(self, c: int, batch: Batch | None) -> Iterator[tuple[int, Part]]:
        """Images and classes of chain c, each with the number of terms of U that its mean loss stands for."""
        if batch is not None:
            index = batch["index"][c]
            size = len(index) if index.is_cuda else int((index < self.terms).sum())
            pixels, labels = self._batch(c, batch, size)
            yield self.batches * size, (self._read(pixels), labels)
            return
        stretches = zip(self._stretches("train", self.batch), self.labels["train"].split(self.batch), strict=True)
        for pixels, labels in stretches:
            yield len(labels), (self._read(pixels), labels)

    def _read(self, pixels: Tensor) -> Tensor:
        return normalise(pixels, self.mean, self.sd)

    def _mean_loss(self, c: int, weights: Tensor, part: Part, *, update: bool) -> Tensor:
        statistics = self.buffers[c] if update else self.buffers[c].clone()
        logits = self._forward(weights, statistics, part[0], training=True)
        return torch.nn.functional.cross_entropy(logits, part[1])

    def _forward(self, weights: Tensor, statistics: Tensor, images: Tensor, *, training: bool) -> Tensor:
        """Logits in theta's precision."""
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.model.precision == "bfloat16"):
            logits = self.network.forward(weights, statistics, images, training=training)
        return logits.to(self.model.dtype)

    @torch.no_grad()
    def statistics_of(self, theta: Tensor, batch: Batch) -> Tensor:
        fresh = torch.zeros_like(self.buffers[0])
        ((_, (images, _)),) = self._parts(0, batch)
        with self.network.forgetful():
            self._forward(theta, fresh, images, training=True)
        return fresh

    @torch.no_grad()
    def predict(self, theta: Tensor, rows: slice, name: str) -> Iterator[Tensor]:
        statistics = self.buffers[rows]
        for pixels in self._stretches(name, STRETCH):
            images = self._read(pixels)
            logits = [self._forward(x, b, images, training=False) for x, b in zip(theta, statistics, strict=True)]
            yield torch.stack(logits).log_softmax(2).float()
