"""Where the weights of a network lie in a row of theta."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Block:
    """A stretch of theta: a weight matrix, a kernel, a bias. `shape` is in the order of memory, outputs first."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)

    @property
    def fan_in(self) -> int:
        """Inputs of one output; 1 for a vector (a bias, a scale)."""
        return math.prod(self.shape[1:])


@dataclass(frozen=True)
class Layout:
    """The blocks of theta in their order: together they are all of it."""

    blocks: tuple[Block, ...]

    @property
    def dim(self) -> int:
        """D."""
        return sum(block.size for block in self.blocks)

    def split(self, theta: Tensor) -> dict[str, Tensor]:
        """Views of theta (C, D), or of anything of its shape, by name: (C, *shape)."""
        parts = theta.split([block.size for block in self.blocks], dim=1)
        return {b.name: part.view(len(theta), *b.shape) for b, part in zip(self.blocks, parts, strict=True)}

    def fill(self, value: Callable[[Block], float], like: Tensor) -> Tensor:
        """A number for each block as a tensor of the shape of `like`, theta's (C, D)."""
        import torch

        return torch.cat([torch.full_like(like[:, : b.size], value(b)) for b in self.blocks], dim=1)
