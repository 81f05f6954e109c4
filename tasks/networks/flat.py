"""A torch module as a pure function of flat vectors: its weights, and the running statistics of its normalisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from harness import Block, Layout

if TYPE_CHECKING:
    from torch import Tensor


class FlatModule:
    """forward(weights (D,), statistics (B,), images) of a module, none of whose tensors holds anything.

    Every parameter is a stretch of the weights, in the order of the module. The kernels of convolutions (O, I, h, w)
    lie in memory as (O, h, w, I), which is `channels_last`. The statistics are running means and variances; in
    training mode the forward pass updates them in place. The count of batches is not kept: no average needs it.

    Splitting is one operation, so the gradient of a function of the weights is one concatenation of its parts.
    """

    def __init__(self, make: Callable[[], torch.nn.Module]) -> None:
        self.make = make
        with torch.device("meta"):
            self.module = make()
        _forget_counts(self.module)
        self.shapes = {name: leaf.shape for name, leaf in self.module.named_parameters()}
        self.sizes = [shape.numel() for shape in self.shapes.values()]
        self.dim = sum(self.sizes)
        self.layout = Layout(tuple(Block(n, tuple(_last(p).shape)) for n, p in self.module.named_parameters()))
        self.buffer_shapes = {name: leaf.shape for name, leaf in self.module.named_buffers()}
        self.buffer_sizes = [shape.numel() for shape in self.buffer_shapes.values()]
        self.buffer_dim = sum(self.buffer_sizes)

    def start(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Weights (D,) and statistics (B,) as the module's own initialisation draws them; `generator` is of the CPU."""
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(generator.get_state())
            module = self.make()
        _forget_counts(module)
        weights = [_last(leaf.detach()).reshape(-1) for leaf in module.parameters()]
        statistics = [leaf.reshape(-1) for leaf in module.buffers()]
        return torch.cat(weights), torch.cat(statistics) if statistics else torch.empty(0)

    def weights(self, flat: Tensor) -> dict[str, Tensor]:
        """Views of the flat weights, by the module's names."""
        return {
            name: _first(piece, shape)
            for (name, shape), piece in zip(self.shapes.items(), flat.split(self.sizes), strict=True)
        }

    def statistics(self, flat: Tensor) -> dict[str, Tensor]:
        """Views of the flat statistics, by the module's names."""
        pieces = flat.split(self.buffer_sizes) if self.buffer_sizes else ()
        return {
            name: piece.view(shape) for (name, shape), piece in zip(self.buffer_shapes.items(), pieces, strict=True)
        }

    @contextmanager
    def forgetful(self) -> Iterator[None]:
        """Within it a forward pass in training mode leaves the batch's own statistics, and nothing of those before."""
        layers = [part for part in self.module.modules() if isinstance(part, torch.nn.BatchNorm2d)]
        momenta = [layer.momentum for layer in layers]
        for layer in layers:
            layer.momentum = 1.0
        try:
            yield
        finally:
            for layer, momentum in zip(layers, momenta, strict=True):
                layer.momentum = momentum

    def forward(self, weights: Tensor, statistics: Tensor, images: Tensor, *, training: bool) -> Tensor:
        """What the module makes of a batch of images."""
        if self.module.training != training:
            self.module.train(training)
        tensors = self.weights(weights) | self.statistics(statistics)
        out: Tensor = torch.func.functional_call(self.module, tensors, (images,))
        return out


def _forget_counts(module: torch.nn.Module) -> None:
    for part in module.modules():
        if getattr(part, "num_batches_tracked", None) is not None:
            part.num_batches_tracked = None


def _last(kernel: Tensor) -> Tensor:
    """The channels of a convolution's kernel as the last axis."""
    return kernel.permute(0, 2, 3, 1) if kernel.ndim == 4 else kernel


def _first(piece: Tensor, shape: torch.Size) -> Tensor:
    """A stretch of the weights in the module's shape."""
    if len(shape) != 4:
        return piece.view(shape)
    out, into, height, width = shape
    return piece.view(out, height, width, into).permute(0, 3, 1, 2)
