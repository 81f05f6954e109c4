"""Langevin dynamics by the BAOAB splitting (Leimkuhler and Matthews 2013): exact on a Gaussian at every step size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class BAOAB(Sampler):
    """Underdamped Langevin dynamics: kick, half a drift, friction and noise, half a drift; c = 1 - alpha.

        B    v     <- v - h grad U(theta)
        A    theta <- theta + v / 2
        O    v     <- c v + sqrt((1 - c^2) h T) xi,    xi ~ N(0, I)
        A    theta <- theta + v / 2

    Target exp(-U/T) as h -> 0. On a quadratic the stationary variance of theta is T / lambda at *every* stable step,
    h lambda < 4, whatever the friction; gradient noise of variance V still adds to it.

    B A O A B with half a kick at either end needs the gradient at one point twice, or kept. The last half kick of a
    step and the first of the next stand at one theta: done at once, they walk through the same positions with one
    gradient a step and none remembered. v is the velocity before that kick, started at N(0, h T). In the physical form
    with mass 1, friction gamma and step epsilon: h = epsilon^2, c = exp(-gamma epsilon). State: v. One gradient a step.

    Source: B. Leimkuhler, C. Matthews, "Rational Construction of Stochastic Numerical Methods for Molecular Sampling",
    Applied Mathematics Research eXpress 2013.
    """

    friction: float = param(
        0.1, "(0, 1]", "alpha, the share of the velocity lost in a step", source="as sghmc; ours", tune="[0.01, 1]"
    )

    @staticmethod
    def zero_temperature(  # type: ignore[override]
        sampler: BAOAB, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """v <- c v - h g; theta <- theta + (1 + c) / 2 v."""
        c = 1 - sampler.friction
        v = c * memory.get("v", 0 * g) - h * g
        return theta + (1 + c) / 2 * v, {"v": v}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"v": (h * T).sqrt() * noise.normal(theta)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        c = 1 - self.friction
        v = state["v"] - h * potential.grad(theta)
        theta = theta + v / 2
        v = c * v + ((1 - c * c) * h * T).sqrt() * noise.normal(theta)
        return theta + v / 2, {"v": v}
