"""Logarithms of densities, up to constants, of the models of posteriordb."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def normal(x: Tensor, mean: Tensor | float = 0.0, sd: Tensor | float = 1.0) -> Tensor:
    """Return log N(x | mean, sd^2), element by element; without log sd if sd is a number."""
    z = (x - mean) / sd
    return -z * z / 2 - (0.0 if isinstance(sd, float | int) else sd.log())


def cauchy(x: Tensor, scale: float) -> Tensor:
    """Return the log density of a Cauchy distribution around 0, element by element."""
    z = x / scale
    return -(1 + z * z).log()
