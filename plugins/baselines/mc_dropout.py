"""MC dropout: SGD with dropped hidden units, which are dropped in the draws too (Gal, Ghahramani 2016), a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class MCDropout(Sampler):
    """SGD on the weights of a network whose hidden units are dropped at random, also in the draws. Not MCMC.

        w     <- w - h m grad U(theta),   theta = m w
        m      = 0 with probability p, else 1 / (1 - p), one number for each hidden unit;   theta = m w

    To drop a unit is to set the weights of the next layer that it feeds to 0, so networks need no layer of their own
    for it: m is shared by the columns, or input channels, of every weight matrix and kernel but the first, and is 1 on
    biases and other vectors. Units are dropped for a whole minibatch and for a whole draw; in the paper each input has
    a mask of its own, which leaves the mean prediction of an input as it is. The prior is that of theta. Temperature
    has no effect, and theta has no relation to exp(-U/T). At p = 0, and on potentials without hidden units, it is SGD.

    Only for tasks that state the layout of their weights: the networks. State: theta - w and m (C, D). One gradient a
    step.

    Source: Y. Gal, Z. Ghahramani, "Dropout as a Bayesian Approximation: Representing Model Uncertainty in Deep
    Learning", ICML 2016.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"layout"})

    rate: float = param(0.1, "[0, 1)", "p, share of hidden units that is dropped", source="ours", tune="[0.01, 0.5]")

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        import torch

        return {"offset": torch.zeros_like(theta), "mask": torch.ones_like(theta)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        w = theta - state["offset"] - h * state["mask"] * potential.grad(theta)
        mask = self.mask(theta, potential, noise)
        theta = mask * w
        return theta, {"offset": theta - w, "mask": mask}

    def mask(self, theta: Tensor, potential: Potential, noise: Noise) -> Tensor:
        """m (C, D)."""
        import torch

        C, parts, first = len(theta), [], True
        for block in potential.layout.blocks:
            like = theta[:, : block.size]
            hidden = len(block.shape) > 1 and not first
            first = first and len(block.shape) == 1
            if not hidden:
                parts.append(torch.ones_like(like))
                continue
            kept = (noise.uniform((C, block.shape[1])) >= self.rate).to(theta.dtype) / (1 - self.rate)
            kept = kept.view(C, 1, -1, *[1] * (len(block.shape) - 2))
            parts.append(kept.expand(C, *block.shape).reshape(C, -1))
        return torch.cat(parts, 1)

    def limit_bias(self) -> float:
        return 0.0
