"""The potential of a torch module, convolutional or not, chain by chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from tasks.vision.augment import crop_and_flip, normalise
from tasks.vision.observer import ClassifierObserver
from tasks.vision.problem import Classifier

if TYPE_CHECKING:
    from torch import Tensor

    from harness import Cost, Trajectory
    from harness.randomness import Streams
    from tasks.networks.flat import FlatModule

    Batch = dict[str, Tensor]

STRETCH = 500
"""Images that are predicted at once."""


@dataclass(frozen=True)
class Images:
    """A set of images (n, H, W, channels) uint8 and their classes (n,) int64, which mean nothing for unseen sets."""

    pixels: Tensor
    labels: Tensor

    def to(self, device: str) -> Images:
        """The same set on a device."""
        return Images(self.pixels.to(device), self.labels.to(device))


@dataclass(frozen=True)
class Reading:
    """How images are read and the loss is computed: mean and sd of each channel, and the precision of the forward pass.

    reach      shifts of the crops, in pixels to each side; 0: images as they are, neither cropped nor flipped
    precision  "float32", which stands for theta's own, or "bfloat16": autocast, with theta, gradient and prior as ever
    """

    mean: Sequence[float]
    sd: Sequence[float]
    reach: int = 0
    precision: str = "float32"


class ModuleClassifier(Classifier):
    """`Classifier` of a module, one chain after the other: the chains of a convolution share no kernel.

    On a batch the *mean* cross-entropy is differentiated, under autocast where asked, and the flat gradient multiplied
    by the number of images that it stands for afterwards, in theta's precision; then the prior is added. The full U is
    of the images as they are, in stretches of the batch size; batch normalisation uses each stretch's own statistics,
    as in training, and leaves the running ones alone.

    A module is no code that could be compiled along with the sampler's step: the problem is `opaque`.

    `sets` holds "train", "test" and the unseen ones; `average` and `train_accuracy` are for `ClassifierObserver`.
    """

    opaque = True

    def __init__(
        self,
        network: FlatModule,
        sets: Mapping[str, Images],
        reading: Reading,
        streams: Sequence[Streams],
        device: str,
        *,
        classes: int,
        batch: int,
        prior_precision: float,
        dtype: torch.dtype = torch.float32,
        average: int | None = None,
        train_accuracy: bool = False,
    ) -> None:
        super().__init__(streams, device, terms=len(sets["train"].labels), batch=batch, reach=reading.reach)
        self.index_device = "cpu"  # how many images there are is read at every step, and must not wait for a GPU
        self.network = network
        self.sets = {name: images.to(device) for name, images in sets.items()}
        self.reading = reading
        self.prior_precision = prior_precision
        self.dtype = dtype
        self.dim = network.dim
        self.classes = classes
        self.labels = {name: self.sets[name].labels for name in ("train", "test")}
        self.unseen = [name for name in sets if name not in {"train", "test"}]
        starts = [network.start(s.torch("init")) for s in streams]
        self._start = torch.stack([weights for weights, _ in starts]).to(device, dtype)
        self.buffers = torch.stack([statistics for _, statistics in starts]).to(device, dtype)
        self.block_limit = 1 if network.buffer_dim else None
        self._watched: dict[str, Any] = {"average": average, "train": train_accuracy}

    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> ClassifierObserver:
        return ClassifierObserver(self, rows, trajectory, cost, **self._watched)

    def initial(self) -> Tensor:
        return self._start.clone()

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        with torch.no_grad():
            return self._energies(theta, [self._loss_of_chain(c, x, batch) for c, x in enumerate(theta)])

    def _loss_of_chain(self, c: int, x: Tensor, batch: Batch | None) -> Tensor:
        """The likelihood part of U (0-dim) of one chain."""
        parts = self._parts(c, batch)
        return torch.stack([self._mean_loss(c, x, *part, update=False) * scale for scale, part in parts]).sum()

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        losses, gradients = [], []
        for c, x in enumerate(theta):
            weights = x.detach().requires_grad_()
            loss: Tensor | float = 0.0
            gradient: Tensor | None = None
            for scale, part in self._parts(c, batch):
                with torch.enable_grad():
                    mean = self._mean_loss(c, weights, *part, update=batch is not None)
                    (slope,) = torch.autograd.grad(mean, weights)
                loss = loss + mean.detach() * scale
                slope = slope.mul_(scale)
                gradient = slope if gradient is None else gradient.add_(slope)
            assert gradient is not None
            losses.append(torch.as_tensor(loss))
            gradients.append(gradient.add_(x.detach(), alpha=self.prior_precision))
        return self._energies(theta, losses), gradients[0][None] if len(gradients) == 1 else torch.stack(gradients)

    def _energies(self, theta: Tensor, losses: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(losses)) + self.prior_precision / 2 * theta.detach().square().sum(1)

    def _parts(self, c: int, batch: Batch | None) -> Iterator[tuple[int, tuple[Tensor, Tensor]]]:
        """Images and classes of chain c, each with the number of terms of U that its mean loss stands for."""
        train = self.sets["train"]
        if batch is None:
            for start in range(0, self.terms, self.batch):
                some = slice(start, start + self.batch)
                pixels, labels = train.pixels[some], train.labels[some]
                yield len(labels), (self._read(pixels), labels)
            return
        index = batch["index"][c]
        size = int((index >= 0).sum())
        index = index[:size].to(self.device, non_blocking=True)
        pixels = train.pixels[index]
        if self.reach:
            pixels = crop_and_flip(pixels, batch["shift"][c, :size], batch["flip"][c, :size], self.reach)
        yield self.batches * size, (self._read(pixels), train.labels[index])

    def _read(self, pixels: Tensor) -> Tensor:
        return normalise(pixels, self.reading.mean, self.reading.sd, self.dtype)

    def _mean_loss(self, c: int, weights: Tensor, images: Tensor, labels: Tensor, *, update: bool) -> Tensor:
        statistics = self.buffers[c] if update else self.buffers[c].clone()
        logits = self._forward(weights, statistics, images, training=True)
        return torch.nn.functional.cross_entropy(logits, labels)

    def _forward(self, weights: Tensor, statistics: Tensor, images: Tensor, *, training: bool) -> Tensor:
        """Logits in theta's precision."""
        with torch.autocast(
            torch.device(self.device).type, torch.bfloat16, enabled=self.reading.precision == "bfloat16"
        ):
            logits = self.network.forward(weights, statistics, images, training=training)
        return logits.to(self.dtype)

    @torch.no_grad()
    def predict(self, theta: Tensor, rows: slice, name: str) -> Iterator[Tensor]:
        pixels = self.sets[name].pixels
        statistics = self.buffers[rows]
        for start in range(0, len(pixels), STRETCH):
            images = self._read(pixels[start : start + STRETCH])
            logits = [self._forward(x, b, images, training=False) for x, b in zip(theta, statistics, strict=True)]
            yield torch.stack(logits).log_softmax(2).float()
