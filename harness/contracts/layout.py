"""The places of a network's weights in a row of theta."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


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
