"""Fully connected ReLU networks of many chains at once, each a row of one tensor."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness import Block, Layout

if TYPE_CHECKING:
    from torch import Generator, Tensor


class MLP:
    """x -> W_L relu(... relu(W_1 x + b_1) ...) + b_L, for chains whose weights are rows of theta (C, D).

    A row is W_1 (row by row), b_1, W_2, b_2 and so on; layers are views of it. Products are one `bmm` a layer: on CPU
    the bits of a chain do not depend on how many others there are. The gradient is written out: it takes half to two
    thirds of the time of automatic differentiation.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.shapes = list(itertools.pairwise(sizes))
        pairs = enumerate(self.shapes, 1)
        self.layout = Layout(
            tuple(b for k, (i, o) in pairs for b in (Block(f"weight{k}", (o, i)), Block(f"bias{k}", (o,))))
        )
        self.splits = [block.size for block in self.layout.blocks]
        self.dim = self.layout.dim

    def start(self, generator: Generator) -> Tensor:
        """Weights and biases uniform on +-1/sqrt(inputs of the layer), as torch's own layers start: (D,) float32."""
        import torch

        pieces = [
            (2 * torch.rand(n, generator=generator, device=generator.device) - 1) / math.sqrt(into)
            for into, out in self.shapes
            for n in (into * out, out)
        ]
        return torch.cat(pieces)

    def layers(self, theta: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Weights (C, out, in) and biases (C, 1, out) of each layer, as views."""
        pieces = theta.split(self.splits, dim=1)
        return [
            (weights.view(len(theta), out, into), biases[:, None])
            for (into, out), weights, biases in zip(self.shapes, pieces[::2], pieces[1::2], strict=True)
        ]

    def logits(self, theta: Tensor, x: Tensor) -> Tensor:
        """The last layer (C, n, K) at inputs x (C, n, inputs), or (n, inputs) where all chains have the same."""
        return self._forward(theta, x)[0]

    def logits_and_pullback(self, theta: Tensor, x: Tensor) -> tuple[Tensor, Pullback]:
        """The logits at x (C, n, inputs), and what turns a gradient by them into one by theta."""
        logits, layers, inputs = self._forward(theta, x)
        return logits, Pullback(layers, inputs)

    def _forward(self, theta: Tensor, x: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]], list[Tensor]]:
        import torch

        layers = self.layers(theta)
        h = x.expand(len(theta), -1, -1) if x.ndim == 2 else x
        inputs: list[Tensor] = []
        for weights, biases in layers:
            if inputs:
                h = h.relu()
            inputs.append(h)
            h = torch.baddbmm(biases, h, weights.mT)
        return h, layers, inputs


class Pullback:
    """The backward pass of one forward pass: its layers, and what went into each."""

    def __init__(self, layers: list[tuple[Tensor, Tensor]], inputs: list[Tensor]) -> None:
        self.layers = layers
        self.inputs = inputs

    def __call__(self, delta: Tensor) -> Tensor:
        """sum_n,k delta_nk d logit_nk / d theta: (C, D), for delta (C, n, K)."""
        import torch

        pieces: list[Tensor] = []
        for (weights, _), h in zip(reversed(self.layers), reversed(self.inputs), strict=True):
            pieces += [delta.sum(1), torch.bmm(delta.mT, h).flatten(1)]
            if h is not self.inputs[0]:
                delta = torch.bmm(delta, weights) * (h > 0)
        return torch.cat(pieces[::-1], dim=1)
