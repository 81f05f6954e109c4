"""Fully connected ReLU networks: one product per layer computes all chains."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from harness import PluginError
from harness.tasks import Block, Classification, DataProblem, Layout, Network, NetworkTask, Problem
from tasks.gauss_newton import GaussNewtonProblem

if TYPE_CHECKING:
    import torch
    from torch import Generator, Tensor, nn

    from harness.tasks import Streams

    Batch = dict[str, Tensor]


class MLP:
    """x -> W_L relu(... relu(W_1 x + b_1) ...) + b_L, for chains whose weights are rows of theta (C, D).

    A row holds W_1 (row by row), b_1, W_2, b_2 and so on; the layers are views of it. Each layer is one `bmm`: on CPU
    the bits of a chain do not depend on the number of other chains. The gradient is written by hand, which takes half
    to two thirds of the time of automatic differentiation.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.shapes = list(itertools.pairwise(map(int, sizes)))
        pairs = enumerate(self.shapes, 1)
        self.layout = Layout(
            tuple(b for k, (i, o) in pairs for b in (Block(f"weight{k}", (o, i)), Block(f"bias{k}", (o,))))
        )
        self.splits = [block.size for block in self.layout.blocks]
        self.dim = self.layout.dim

    def problem(self, task: NetworkTask, streams: Sequence[Streams], device: str) -> MLPProblem:
        """Return the problem of `len(streams)` chains; `PluginError` if the task has a loss or precision of its own."""
        kept = ("mean_loss", "changes")
        changed = [name for name in kept if getattr(type(task), name) is not getattr(NetworkTask, name)]
        changed += ["precision"] if task.precision != "float32" else []
        if changed:
            raise PluginError(
                f"{type(task).__name__}.{changed[0]} would have no effect: an MLP has the likelihood of rows as they "
                "are, in theta's precision; return Network(make) from network(), of a function that makes a torch "
                "module"
            )
        return MLPProblem(task, streams, device)

    def make(self) -> torch.nn.Module:
        """Return the network as a torch module, with torch's own layers."""
        import torch

        layers = [part for shape in self.shapes for part in (torch.nn.Linear(*shape), torch.nn.ReLU())]
        return torch.nn.Sequential(torch.nn.Flatten(), *layers[:-1])

    def start(self, generator: Generator) -> Tensor:
        """Return starting weights (D,) float32, uniform on +-1/sqrt(inputs of the layer), as in torch's own layers."""
        import torch

        pieces = [
            (2 * torch.rand(n, generator=generator, device=generator.device) - 1) / math.sqrt(into)
            for into, out in self.shapes
            for n in (into * out, out)
        ]
        return torch.cat(pieces)

    def first_statistics(self) -> Tensor:
        """Return no statistics, (0,), because the network has no normalisation."""
        import torch

        return torch.empty(0)

    @functools.cached_property
    def module_network(self) -> Network:
        """The same network as a torch module, with the same order of weights in theta."""
        return Network(self._module)

    def _module(self) -> nn.Module:
        from torch import nn

        layers: list[nn.Module] = [nn.Linear(*self.shapes[0])]
        for shape in self.shapes[1:]:
            layers += [nn.ReLU(), nn.Linear(*shape)]
        return nn.Sequential(*layers)

    def layers(self, theta: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return the weights (C, out, in) and biases (C, 1, out) of each layer, as views."""
        pieces = theta.split(self.splits, dim=1)
        return [
            (weights.view(len(theta), out, into), biases[:, None])
            for (into, out), weights, biases in zip(self.shapes, pieces[::2], pieces[1::2], strict=True)
        ]

    def logits(self, theta: Tensor, x: Tensor) -> Tensor:
        """Return the logits (C, n, K) at inputs x (C, n, inputs), or (n, inputs) if all chains have the same inputs."""
        return self._forward(theta, x)[0]

    def logits_and_pullback(self, theta: Tensor, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return the logits at x, and a function that turns a gradient with respect to them into one for theta."""
        logits, layers, inputs = self._forward(theta, x)
        return logits, functools.partial(self._pull_back, layers, inputs)

    def _pull_back(self, layers: list[tuple[Tensor, Tensor]], inputs: list[Tensor], delta: Tensor) -> Tensor:
        """Return sum_n,k delta_nk d logit_nk / d theta, (C, D), for delta (C, n, K) and what `_forward` returned."""
        import torch

        slopes = delta.new_empty((len(delta), self.dim))
        for (weights, _), (slope, bias), h in zip(layers[::-1], self.layers(slopes)[::-1], inputs[::-1], strict=True):
            torch.sum(delta, 1, keepdim=True, out=bias)
            torch.bmm(delta.mT, h, out=slope)
            if h is not inputs[0]:
                delta = torch.ops.aten.threshold_backward(torch.bmm(delta, weights), h, 0)
        return slopes

    def _forward(self, theta: Tensor, x: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]], list[Tensor]]:
        import torch

        layers = self.layers(theta)
        h = x.expand(len(theta), -1, -1)
        inputs: list[Tensor] = []
        for weights, biases in layers:
            inputs.append(h.relu_() if inputs else h)
            h = torch.baddbmm(biases, h, weights.mT)
        return h, layers, inputs


class MLPProblem(GaussNewtonProblem):
    """The `NetworkProblem` of an `MLP`, for all chains at once.

    The gradient of cross-entropy is written by hand; that of another likelihood with respect to the outputs is
    automatic, chain after chain. The losses of a batch are summed and multiplied by m, the number of batches of an
    epoch; the prior is added on the flat vector. Rows beyond the end of a short batch are computed with weight zero.
    The compiler does not compile the network, because a few large products gain nothing from it.
    """

    network: MLP
    cuts_batches: ClassVar[bool] = False

    def compile_network(self) -> None:
        """Raise `UsageError`, because an MLP has no module."""
        Problem.compile_network(self)

    def draw_batches(self, steps: int) -> Batch:
        """Return row indices (steps, C, n) on the device, with N in the empty places of a short batch."""
        return DataProblem.draw_batches(self, steps)

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return U (C,)."""
        total = self.prior(theta, batch)
        for x, label, weights in self._terms_of(batch):
            total = total + self._weighted_loss(self._predicted(self.network.logits(theta, x)), label, weights)
        return total

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D)."""
        total, gradient = self.prior(theta, batch), self.prior_gradient(theta, batch)
        for predicted, label, weights, pulled in self._with_gradients(theta, batch):
            total = total + self._weighted_loss(predicted, label, weights)
            gradient = pulled.add_(gradient)
        return total, gradient

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return grad U (C, D)."""
        gradient = self.prior_gradient(theta, batch)
        for *_, pulled in self._with_gradients(theta, batch):
            gradient = pulled.add_(gradient)
        return gradient

    def prior(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return -log p(theta) (C,), up to a constant."""
        return -self.task.log_prior(theta)

    def prior_gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return the gradient (C, D) of -log p(theta)."""
        return self.task.prior_gradient(theta)

    def _with_gradients(self, theta: Tensor, batch: Batch | None) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Yield `_predicted`, the labels and weights of the terms, and the gradient (C, D) of their part of U."""
        import torch

        for x, label, weights in self._terms_of(batch):
            outputs, pullback = self.network.logits_and_pullback(theta, x)
            predicted = self._predicted(outputs)
            if self._by_hand:
                truth = label.expand(len(theta), -1)[..., None]
                slopes = predicted.exp().scatter_add_(2, truth, predicted.new_full((), -1.0).expand(truth.shape))
                slopes.mul_(weights[..., None])
            else:
                with torch.enable_grad():
                    leaf = outputs.detach().requires_grad_()
                    (slopes,) = torch.autograd.grad(self._weighted_loss(leaf, label, weights).sum(), leaf)
            yield predicted, label, weights, pullback(slopes)

    @property
    def _by_hand(self) -> bool:
        """Whether the gradient with respect to the outputs is that of cross-entropy."""
        return type(self.task.likelihood) is Classification

    def _predicted(self, outputs: Tensor) -> Tensor:
        """Return log p (C, n, K) of the classes, or the outputs for another likelihood."""
        return outputs.log_softmax(2) if self._by_hand else outputs

    def _weighted_loss(self, predicted: Tensor, label: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted sum of -log p(label | outputs), (C,)."""
        import torch

        labels = label.expand(len(predicted), *label.shape[1:])
        if self._by_hand:
            each = predicted.gather(2, labels[..., None])[..., 0]
        else:
            each = torch.stack([self.task.log_likelihood(*pair) for pair in zip(predicted, labels, strict=True)])
        return -(each * weights).sum(1)

    @functools.cached_property
    def seen(self) -> Tensor:
        """The network's inputs for the training rows (N, inputs), computed once."""
        return self.task.inputs(self.arrays["x"])

    def _terms_of(self, batch: Batch | None) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield the inputs (C, n, inputs), labels and weights (C, n) of the terms; C = 1 if all chains share them."""
        x, label = self.seen, self.labels["train"]
        if batch:
            index = batch["index"]
            rows = index.clamp(max=self.terms - 1)
            yield x[rows], label[rows], self.multiple * (index < self.terms).to(self.dtype)
            return
        for some in (slice(start, start + self.stretch) for start in range(0, self.terms, self.stretch)):
            yield x[some][None], label[None, some], x.new_ones((1, 1), dtype=self.dtype)

    def outputs(self, theta: Tensor, chains: slice, x: Tensor) -> Tensor:
        """Return the logits (C, n, K)."""
        return self.network.logits(theta, x)
