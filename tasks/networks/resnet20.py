"""The residual network with 20 layers and swish whose posterior was sampled by HMC."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from torch import nn

from tasks.networks.normalisation import ThresholdedLinear, normalise

if TYPE_CHECKING:
    from torch import Tensor


class ResNet20(nn.Module):
    """Stem of 3 x 3, three stages of three blocks with w, 2w, 4w channels, the mean over all places, a linear layer.

    A layer is a convolution with a bias, a normalisation and, except before a sum and in a shortcut, swish. With filter
    response normalisation the maximum with tau belongs to the layer and stands before swish. 274,042 parameters at
    w = 16 and 10 classes, all of them in the prior. Convolutions of stride 2 pad one row below and one column on the
    right, as "SAME" does in JAX. Kernels start at truncated normals of variance 2 / fan-in (He et al. 2015), biases at
    0.

    Source: P. Izmailov, S. Vikram, M. D. Hoffman, A. G. Wilson, "What Are Bayesian Neural Network Posteriors Really
    Like?", ICML 2021, code (google-research/bnn_hmc, utils/models.py: resnet20_frn_swish).
    """

    def __init__(self, classes: int, width: int = 16, kind: str = "filter-response") -> None:
        super().__init__()
        self.stem = nn.Sequential(*_layer(3, width, kind), nn.SiLU())
        channels = [width, width, 2 * width, 4 * width]
        self.stages = nn.Sequential(
            *(
                nn.Sequential(
                    Block(into, out, 1 if stage == 0 else 2, kind), Block(out, out, 1, kind), Block(out, out, 1, kind)
                )
                for stage, (into, out) in enumerate(pairwise(channels))
            )
        )
        self.linear = nn.Linear(4 * width, classes)
        for part in self.modules():
            if isinstance(part, nn.Conv2d | nn.Linear):
                _he_normal(part)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(self.stages(self.stem(x)).mean(dim=(2, 3)))
        return logits


class Block(nn.Module):
    """x -> swish(two layers of x + x); the first block of a later stage halves the sides, and x passes a layer too."""

    def __init__(self, into: int, out: int, stride: int, kind: str) -> None:
        super().__init__()
        self.layers = nn.Sequential(*_layer(into, out, kind, stride), nn.SiLU(), *_layer(out, out, kind))
        self.shortcut = nn.Sequential(*(_layer(into, out, kind, stride, side=1) if stride > 1 else []))
        self.act = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.act(self.layers(x) + self.shortcut(x))
        return result


def _layer(into: int, out: int, kind: str, stride: int = 1, side: int = 3) -> list[nn.Module]:
    """A convolution and its normalisation; images have even sides."""
    padding = [nn.ZeroPad2d((0, 1, 0, 1))] if stride > 1 and side > 1 else []
    convolution = nn.Conv2d(into, out, side, stride, 0 if padding else side // 2)
    threshold = [ThresholdedLinear(out)] if kind == "filter-response" else []
    return [*padding, convolution, normalise(kind, out), *threshold]


_TRUNCATED = 0.87962566103423978
"""Standard deviation of a standard normal that is cut off at 2."""


def _he_normal(part: nn.Conv2d | nn.Linear) -> None:
    sd = (2 / part.weight[0].numel()) ** 0.5 / _TRUNCATED
    nn.init.trunc_normal_(part.weight, std=sd, a=-2 * sd, b=2 * sd)
    if part.bias is not None:
        nn.init.zeros_(part.bias)
