"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox, Guestrin 2014), velocity first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param
from plugins.samplers import correction

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SGHMC(Sampler):
    """Underdamped Langevin dynamics in the velocity form; alpha is the friction, 1 - alpha the momentum.

        v     <- (1 - alpha) v - h grad U(theta) + sqrt(2 alpha h T - h^2 V) xi,    xi ~ N(0, I)
        theta <- theta + v

    Target exp(-U/T) as h -> 0. The new velocity moves the position (symplectic Euler): with x = h lambda the
    stationary variance on a quadratic is (T / lambda) / (1 - x / (2 (2 - alpha))), stable for x < 2 (2 - alpha);
    moving by the old velocity would need x < alpha. v v' averages h T 2 / (2 - alpha) times that factor, so the
    kinetic temperature reads 2 / (2 - alpha) even where theta is right.

    In the physical form with mass M, friction C and step epsilon: h = epsilon^2 / M, alpha = epsilon C / M. A change of
    h carries v over as it is. State: v, started at N(0, h T). One gradient a step.

    V is the variance of one coordinate of the stochastic gradient where it is known: that much of the noise is there
    already (beta-hat of the paper is h V / (2 T)). With alpha = 0 nothing takes the energy of that noise away: the
    step preserves volume (det A = 1), and E[U] grows without end, in proportion to V. It has no stationary law.

    Source: T. Chen, E. B. Fox, C. Guestrin, "Stochastic Gradient Hamiltonian Monte Carlo", ICML 2014, eq. 15.
    """

    zero_temperature: ClassVar[str] = "heavy-ball"

    friction: float = param(
        0.1, "[0, 1]", "alpha, one minus the momentum", source="momentum 0.9 of Kim et al. 2022", tune="[0.01, 1]"
    )
    gradient_variance: float = param(
        0.0, "[0, inf)", "V, taken off the injected noise", unit=2, source="none, as published"
    )

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"v": (h * T).sqrt() * noise.normal(theta)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        alpha = self.friction
        variance = 2 * alpha * h * T - h * h * self.gradient_variance
        kick = variance.clamp(min=0).sqrt() * noise.normal(theta)
        v = (1 - alpha) * state["v"] - h * potential.grad(theta) + kick
        return theta + v, {"v": v}

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        correction.check("sghmc", h, T, self.gradient_variance, 2 * self.friction)

    def limit_bias(self) -> float | None:
        return 1.0 if self.friction else None
