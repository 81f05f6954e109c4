"""Stochastic gradient Langevin dynamics (Welling and Teh 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import Noise, Potential, Sampler, param
from plugins.samplers import correction

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SGLD(Sampler):
    """Langevin dynamics driven by a stochastic gradient.

        theta <- theta - h grad U(theta) + sqrt(2 h T - h^2 V) xi,    xi ~ N(0, I)

    Target exp(-U/T) as h -> 0. On a quadratic potential of curvature lambda, with x = h lambda, the stationary
    variance is (T / lambda) / (1 - x/2); stable for x < 2. Welling and Teh's step is epsilon = 2h.

    V is the variance of one coordinate of the stochastic gradient where it is known: that much of the noise is there
    already, and the total is 2 h T again. State: none. One gradient a step.

    Source: M. Welling, Y. W. Teh, "Bayesian Learning via Stochastic Gradient Langevin Dynamics", ICML 2011; the
    correction as in the mixture code of Zhang et al., ICLR 2020.
    """

    gradient_variance: float = param(
        0.0, "[0, inf)", "V, taken off the injected noise", unit=2, source="none, as published"
    )

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        variance = 2 * h * T - h * h * self.gradient_variance
        xi = noise.normal(theta)
        return theta - h * potential.grad(theta) + variance.clamp(min=0).sqrt() * xi, state

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        correction.check("sgld", h, T, self.gradient_variance, 2)
