"""Stochastic gradient descent with momentum, in the velocity form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SGDM(Sampler):
    """Heavy ball on minibatches; an optimiser, whatever T is.

        v     <- (1 - alpha) v - h grad U(theta)
        theta <- theta + v

    The step size stands inside v: a step keeps the size that it was made with. torch.optim.SGD keeps a sum of
    gradients instead and multiplies all of it by the step size of now, so the two agree where h is constant and
    differ wherever it changes. Stable for x = h lambda < 2 (2 - alpha). State: v, from 0. One gradient a step.

    Source: B. T. Polyak, "Some methods of speeding up the convergence of iteration methods", 1964; the velocity form
    as in T. Chen, E. B. Fox, C. Guestrin, ICML 2014, eq. 15 without noise.
    """

    zero_temperature: ClassVar[str] = "heavy-ball"

    friction: float = param(
        0.1, "(0, 1]", "alpha, one minus the momentum", source="momentum 0.9, as is usual", tune="[0.01, 1]"
    )

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"v": theta.new_zeros(theta.shape)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        v = (1 - self.friction) * state["v"] - h * potential.grad(theta)
        return theta + v, {"v": v}

    def limit_bias(self) -> float:
        return 0.0
