"""A torch module as a pure function of flat vectors, and the places of its weights in them."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor


ALIGNMENT = 16
"""Bytes to which a GPU's kernels need a tensor's start aligned. cuDNN's batch normalisation ends in "CUDA error:
misaligned address" otherwise, for weights and for running statistics (torch 2.11, cuDNN 9.19, an H200)."""

ROW_ALIGNMENT = 256
"""Bytes to which the start of a whole vector is aligned, so that all chains take the same kernels."""


@dataclass(frozen=True)
class Block:
    """A part of theta: a weight matrix, a kernel or a bias. `shape` is in memory order, outputs first."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def fan_in(self) -> int:
        """The number of inputs of one output; 1 for a vector (a bias, a scale)."""
        return math.prod(self.shape[1:])


@dataclass(frozen=True)
class Layout:
    """The blocks of theta in their order; together they are the whole of theta."""

    blocks: tuple[Block, ...]

    @property
    def dim(self) -> int:
        """The number of parameters, D."""
        return sum(block.size for block in self.blocks)

    def split(self, theta: Tensor) -> dict[str, Tensor]:
        """Return views of theta (C, D), or of a tensor of its shape, by block name: (C, *shape)."""
        parts = theta.split([block.size for block in self.blocks], dim=1)
        return {b.name: part.view(len(theta), *b.shape) for b, part in zip(self.blocks, parts, strict=True)}

    def fill(self, value: Callable[[Block], float], like: Tensor) -> Tensor:
        """Return a tensor of the shape of `like`, which is theta's (C, D), that holds one number for each block."""
        import torch

        return torch.cat([torch.full_like(like[:, : b.size], value(b)) for b in self.blocks], dim=1)


class Network:
    """A torch module as a pure function of two flat vectors: its weights and its normalisation's running statistics.

    Every parameter is a part of the weights, in the order of the module. The kernels of convolutions (O, I, h, w) are
    stored as (O, h, w, I), which is `channels_last`. The statistics are running means and variances; in training mode
    the forward pass updates them in place. The count of batches is not kept, because no average needs it.

    Splitting is one operation, so the gradient of a function of the weights is one concatenation of its parts.
    """

    def __init__(self, make: Callable[[], torch.nn.Module]) -> None:
        import torch

        self.make = make
        with torch.device("meta"):
            self.module = _without_counts(make())
        self.shapes = {name: leaf.shape for name, leaf in self.module.named_parameters()}
        self.sizes = [shape.numel() for shape in self.shapes.values()]
        self.layout = Layout(tuple(Block(n, tuple(_channels_last(p).shape)) for n, p in self.module.named_parameters()))
        self.dim = self.layout.dim
        self.buffer_shapes = {name: leaf.shape for name, leaf in self.module.named_buffers()}
        self.buffer_sizes = [shape.numel() for shape in self.buffer_shapes.values()]

    @contextmanager
    def safe_kernels(self) -> Iterator[None]:
        """Do without oneDNN where its gradients of convolutions to fewer than 8 channels write past their memory.

        Seen with torch 2.9 to 2.14 on processors with AVX2 and without AVX-512, in float32.
        """
        import torch

        before = torch._C._get_mkldnn_enabled()  # noqa: SLF001 - the public functions set three other flags, too
        narrow = any(getattr(module, "out_channels", 8) < 8 for module in self.module.modules())
        torch._C._set_mkldnn_enabled(before and not (narrow and torch.backends.cpu.get_cpu_capability() == "AVX2"))  # noqa: SLF001
        try:
            yield
        finally:
            torch._C._set_mkldnn_enabled(before)  # noqa: SLF001

    def start(self, generator: torch.Generator) -> Tensor:
        """Return weights (D,) as the module's own initialisation draws them, from a generator on the CPU."""
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(generator.get_state())
            module = self.make()
        return torch.cat([_channels_last(leaf.detach()).reshape(-1) for leaf in module.parameters()])

    def first_statistics(self) -> Tensor:
        """Return the statistics (B,) of a newly made module."""
        import torch

        if not self.buffer_sizes:
            return torch.empty(0)
        with torch.random.fork_rng(devices=[]):
            return torch.cat([leaf.reshape(-1) for leaf in _without_counts(self.make()).buffers()])

    def weights(self, flat: Tensor, low: torch.dtype | None = None) -> dict[str, Tensor]:
        """Return views of the flat weights by the module's names; kernels and matrices are cast to `low` if given."""
        if low is None:
            pieces: Sequence[Tensor] = flat.split(self.sizes)
        else:
            pieces = _splitter()(flat, self.sizes, [len(shape) > 1 for shape in self.shapes.values()], low)
        return {
            name: _module_shape(piece, shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }

    def statistics(self, flat: Tensor) -> dict[str, Tensor]:
        """Return views of the flat statistics, by the module's names."""
        pieces = flat.split(self.buffer_sizes) if self.buffer_sizes else ()
        return {
            name: piece.view(shape) for (name, shape), piece in zip(self.buffer_shapes.items(), pieces, strict=True)
        }

    def forward(
        self, weights: Tensor, statistics: Tensor, x: Tensor, *, training: bool, low: torch.dtype | None = None
    ) -> Tensor:
        """Return the module's output for a batch x, with kernels and matrices cast to the type `low` if it is given.

        Autocast would cast each kernel separately, forward and backward; here all are cast at once, to the same bits.
        """
        import torch

        if self.module.training != training:
            self.module.train(training)
        running = self.statistics(statistics)
        used = _aligned(running, self.buffer_sizes)
        if any(used[name] is not leaf for name, leaf in running.items()):
            used = {name: leaf.clone() for name, leaf in running.items()}  # all: autograd sees what is written below
        leaves = _aligned(self.weights(aligned(weights), low), self.sizes) | used
        out: Tensor = torch.func.functional_call(self.module, leaves, (x,))
        for name, leaf in running.items() if training else ():
            if used[name] is not leaf:
                leaf.copy_(used[name])
        return out


def aligned(flat: Tensor) -> Tensor:
    """Return a chain's vector of weights, or a copy whose start a GPU's kernels can use."""
    import torch

    if flat.is_cuda and not torch.compiler.is_compiling() and flat.data_ptr() % ROW_ALIGNMENT:
        return flat.clone()
    return flat


def _aligned(leaves: Mapping[str, Tensor], sizes: Sequence[int]) -> dict[str, Tensor]:
    """Return the parts of an aligned vector, those as copies whose start in it a GPU's kernels cannot use."""
    starts = itertools.accumulate(sizes, initial=0)
    return {
        name: leaf.clone() if leaf.is_cuda and start * leaf.element_size() % ALIGNMENT else leaf
        for (name, leaf), start in zip(leaves.items(), starts, strict=False)
    }


@functools.cache
def _splitter() -> Callable[[Tensor, Sequence[int], Sequence[bool], torch.dtype], Sequence[Tensor]]:
    """Return a function that splits flat weights and casts some of them: one operation with one gradient."""
    import torch

    class Pieces(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, flat: Tensor, sizes: Sequence[int], lowered: Sequence[bool], low: torch.dtype) -> Any:
            ctx.sizes, ctx.dtype = sizes, flat.dtype
            both = zip(flat.to(low).split(sizes), flat.split(sizes), lowered, strict=True)
            return tuple(cast if is_low else uncast for cast, uncast, is_low in both)

        @staticmethod
        def backward(ctx: Any, *slopes: Tensor) -> Any:
            gradient = torch.empty(sum(ctx.sizes), dtype=ctx.dtype, device=slopes[0].device)
            for dtype in dict.fromkeys(slope.dtype for slope in slopes):
                pairs = zip(gradient.split(ctx.sizes), slopes, strict=True)
                places, values = zip(*((piece, slope) for piece, slope in pairs if slope.dtype == dtype), strict=True)
                torch._foreach_copy_(places, values)
            return gradient, None, None, None

    return Pieces.apply


def _without_counts(module: torch.nn.Module) -> torch.nn.Module:
    for part in module.modules():
        if getattr(part, "num_batches_tracked", None) is not None:
            part.num_batches_tracked = None
    return module


def _channels_last(kernel: Tensor) -> Tensor:
    """Return a convolution's kernel with the channels as the last axis; other tensors are unchanged."""
    return kernel.permute(0, 2, 3, 1) if kernel.ndim == 4 else kernel


def _module_shape(piece: Tensor, shape: torch.Size) -> Tensor:
    """Return a part of the weights in the module's shape: the inverse of `_channels_last`."""
    if len(shape) != 4:
        return piece.view(shape)
    out, into, height, width = shape
    return piece.view(out, height, width, into).permute(0, 3, 1, 2)


@functools.lru_cache(maxsize=64)
def _constant(numbers: float | tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    import torch

    return torch.tensor(numbers, dtype=dtype, device=device)


def constant(numbers: float | tuple[float, ...], like: Tensor) -> Tensor:
    """Return numbers as a tensor of the dtype and on the device of `like`, made once.

    The tensor is cached, because a recorded step must not copy numbers to the device.
    """
    return _constant(numbers, like.dtype, like.device)
