"""Relativistic stochastic gradient Hamiltonian Monte Carlo (Lu et al. 2017): no particle is faster than c."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class RelativisticSGHMC(Sampler):
    """Underdamped Langevin dynamics whose kinetic energy is that of special relativity; epsilon = sqrt(h).

        p     <- p - epsilon grad U(theta) - epsilon D v(p) + sqrt(2 epsilon D T) xi,    xi ~ N(0, I)
        theta <- theta + epsilon v(p)
        K(p) = m c^2 sqrt(|p|^2 / (m c)^2 + 1),    v(p) = grad K(p) = p / (m sqrt(|p|^2 / (m c)^2 + 1))

    Target exp(-(U(theta) + K(p)) / T) as h -> 0: theta has exp(-U/T) whatever m, c and D. A step is never longer than
    epsilon c, however steep U is, as with a clipped gradient; c -> infinity is sghmc with step h / m and friction
    epsilon D / m. At T = 0 it is the paper's relativistic gradient descent. State: p, started at N(0, m T), the law of
    slow particles. One gradient a step.

    Source: X. Lu, V. Perrone, L. Hasenclever, Y. W. Teh, S. J. Vollmer, "Relativistic Monte Carlo", AISTATS 2017.
    Checked against the authors' SGMCMC.jl (SGRelHMCState, whose noise estimate is left out, as by its
    default), whose friction also acts by the old p; the temperature is ours and follows from the law of p.
    """

    step_unit: ClassVar[int] = 0

    mass: float = param(1.0, "(0, inf)", "m, mass at rest", unit=1, source="SGMCMC.jl")
    c: float = param(1.0, "(0, inf)", "speed of light, theta over the unit of epsilon", source="SGMCMC.jl")
    friction: float = param(
        1.0, "(0, inf)", "D, friction by the velocity", unit=1, source="SGMCMC.jl", tune="[0.1, 10]"
    )

    @staticmethod
    def zero_temperature(  # type: ignore[override]
        sampler: RelativisticSGHMC, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """p <- p - epsilon (g + D v(p)); theta <- theta + epsilon v(p)."""
        m, c, p = sampler.mass, sampler.c, memory.get("p", 0 * g)
        p = p - h.sqrt() * (g + sampler.friction * c * p / (p.square().sum(1, keepdim=True) + (m * c) ** 2).sqrt())
        return theta + h.sqrt() * c * p / (p.square().sum(1, keepdim=True) + (m * c) ** 2).sqrt(), {"p": p}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"p": (self.mass * T).sqrt() * noise.normal(theta)}

    def velocity(self, p: Tensor) -> Tensor:
        """grad K (C, D) at momenta p (C, D)."""
        gamma = (p.square().sum(1, keepdim=True) / (self.mass * self.c) ** 2 + 1).sqrt()
        return p / (self.mass * gamma)

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        epsilon, D, p = h.sqrt(), self.friction, state["p"]
        xi = noise.normal(theta)
        p = p - epsilon * (potential.grad(theta) + D * self.velocity(p)) + (2 * epsilon * D * T).sqrt() * xi
        return theta + epsilon * self.velocity(p), {"p": p}
