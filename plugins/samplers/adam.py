"""Adam: steps along the running mean of the gradient, each coordinate in units of its own size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Adam(Sampler):
    """Adam on minibatches; an optimiser, whatever T is.

        m <- beta1 m + (1 - beta1) g,   V <- beta2 V + (1 - beta2) g^2,    g = grad U(theta)
        theta <- theta - h (m / (1 - beta1^t)) / (sqrt(V / (1 - beta2^t)) + lam)

    h is a length, not a multiple of the gradient: it is the learning rate itself, on U as on the mean loss U/N, where
    lam is N times the epsilon of the mean loss. State: m, V, and the count of steps t (C, 1). One gradient a step.

    Source: D. P. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, algorithm 1.
    """

    step_unit: ClassVar[int] = 0
    adaptive: ClassVar[tuple[str, ...]] = ("V",)
    zero_temperature: ClassVar[str] = "adam"

    beta1: float = param(0.9, "[0, 1)", "smoothing factor of the mean", source="Kingma, Ba 2015", tune="[0.5, 0.99]")
    beta2: float = param(0.999, "[0, 1)", "smoothing factor of the square", source="Kingma, Ba 2015")
    lam: float = param(
        1e-8, "(0, inf)", "added to the size, in units of grad U", unit=1, source="Kingma, Ba 2015", tune="[1e-8, 1]"
    )

    @classmethod
    def settings(cls, task: str) -> Mapping[str, object]:
        return {"schedule": "constant", "schedule.step_size": 1e-3}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        import torch

        zero = theta.new_zeros(theta.shape)
        return {"m": zero, "V": zero, "t": theta.new_zeros((len(theta), 1), dtype=torch.int64)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g = potential.grad(theta)
        m = self.beta1 * state["m"] + (1 - self.beta1) * g
        V = self.beta2 * state["V"] + (1 - self.beta2) * g * g
        t = state["t"] + 1
        mean = m / share(self.beta1, t, g)
        size = (V / share(self.beta2, t, g)).sqrt() + self.lam
        return theta - h * mean / size, {"m": m, "V": V, "t": t}

    def limit_bias(self) -> float:
        return 0.0


def share(beta: float, t: Tensor, like: Tensor) -> Tensor:
    """1 - beta^t, what a mean that starts at 0 has seen by step t, (C, 1)."""
    if beta == 0:
        return like.new_ones(())
    return -(math.log(beta) * t.to(like.dtype)).expm1()
