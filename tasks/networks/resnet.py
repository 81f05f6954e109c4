"""The residual network with 18 layers for images of 32 x 32, and torchvision's with 50 layers for ImageNet."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from torch import nn

from tasks.networks.normalisation import activate, normalise

if TYPE_CHECKING:
    from torch import Tensor


class Block(nn.Module):
    """x -> activation(normalised convolutions of x + shortcut of x), two convolutions of 3 x 3."""

    def __init__(self, into: int, out: int, stride: int, kind: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.norm1 = normalise(kind, out)
        self.act1 = activate(kind, out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = normalise(kind, out)
        self.shortcut = nn.Sequential()
        if stride != 1 or into != out:
            self.shortcut = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), normalise(kind, out))
        self.act2 = activate(kind, out)

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm2(self.conv2(self.act1(self.norm1(self.conv1(x)))))
        result: Tensor = self.act2(out + self.shortcut(x))
        return result


class ResNet18(nn.Module):
    """Stem of 3 x 3, four stages of two blocks with w, 2w, 4w, 8w channels, the mean over all places, a linear layer.

    11,173,962 parameters at w = 64, batch normalisation and 10 classes, initialised as PyTorch does by default.

    Source: K. He et al., "Deep Residual Learning for Image Recognition", 2016, in the form of the cyclical SG-MCMC
    code (github.com/ruqizhang/csgmcmc, models/resnet.py), whose layers come in this order.
    """

    def __init__(self, classes: int, width: int = 64, kind: str = "batch") -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), normalise(kind, width))
        self.act = activate(kind, width)
        channels = [width, width, 2 * width, 4 * width, 8 * width]
        self.stages = nn.Sequential(
            *(
                nn.Sequential(Block(into, out, 1 if stage == 0 else 2, kind), Block(out, out, 1, kind))
                for stage, (into, out) in enumerate(pairwise(channels))
            )
        )
        self.linear = nn.Linear(8 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stages(self.act(self.stem(x)))
        logits: Tensor = self.linear(x.mean(dim=(2, 3)))
        return logits


def resnet50(classes: int) -> nn.Module:
    """torchvision's ResNet-50, without weights; 25,557,032 parameters at 1,000 classes."""
    import torchvision

    network: nn.Module = torchvision.models.resnet50(weights=None, num_classes=classes)
    return network
