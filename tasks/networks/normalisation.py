"""What stands between a convolution and the next: normalisation and activation.

Batch normalisation makes the loss of an image depend on the others of its batch, so exp(-U) is no posterior; the other
two are functions of the image alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

NORMALISATIONS = ("batch", "filter-response", "group")


class FilterResponse(nn.Module):
    """y = gamma x / sqrt(nu + 1e-6) + beta, nu = mean of x^2 over the places of one channel of one image.

    Source: S. Singh, S. Krishnan, "Filter Response Normalization Layer", CVPR 2020, eq. 1 to 3.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        size = (wide.square().mean(dim=(2, 3), keepdim=True) + 1e-6).rsqrt()
        return (wide * size * _channels(self.weight) + _channels(self.bias)).to(x.dtype)


class ThresholdedLinear(nn.Module):
    """y = max(x, tau), tau a parameter of each channel: the activation that belongs to filter response normalisation.

    Source: S. Singh, S. Krishnan, CVPR 2020, eq. 5.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.tau = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(x, _channels(self.tau).to(x.dtype))


def normalise(kind: str, channels: int) -> nn.Module:
    """A normalisation of `NORMALISATIONS`; groups are 32, or fewer of at least two channels."""
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    if kind == "group":
        return nn.GroupNorm(math.gcd(32, max(1, channels // 2)), channels)
    return FilterResponse(channels)


def activate(kind: str, channels: int) -> nn.Module:
    """The activation after it."""
    return ThresholdedLinear(channels) if kind == "filter-response" else nn.ReLU()


def _channels(x: Tensor) -> Tensor:
    return x[:, None, None]
