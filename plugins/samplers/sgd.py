"""Stochastic gradient descent: what sgld is without its noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import Noise, Potential, Sampler

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SGD(Sampler):
    """Gradient descent on minibatches; an optimiser, whatever T is.

        theta <- theta - h grad U(theta)

    The learning rate on the mean loss U/N is h N, and weight decay is part of U, as the prior of the task. On a
    quadratic potential it is stable for x = h lambda < 2, and the noise of the gradient alone, of variance V a
    coordinate, leaves it a variance of h^2 V / (x (2 - x)). State: none. One gradient a step.

    Source: H. Robbins, S. Monro, "A stochastic approximation method", Annals of Mathematical Statistics 22, 1951.
    """

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return theta - h * potential.grad(theta), state

    def limit_bias(self) -> float:
        return 0.0
