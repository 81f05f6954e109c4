"""Microcanonical Langevin Monte Carlo (Robnik et al. 2023): constant speed, and no test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param
from plugins.samplers.microcanonical import mclachlan, normalised

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class MCLMC(Sampler):
    """Motion at constant speed on the full U: a unit vector u that gradients turn and noise refreshes.

        u <- u + nu xi, normalised,    nu^2 = alpha / (D (1 - alpha)),    xi ~ N(0, I)
        a step of length epsilon by McLachlan's integrator: two drifts by epsilon u / 2, three turns of u
        u <- u + nu xi, normalised

    Target exp(-U/T) as h -> 0, in two dimensions or more, without a Metropolis test. epsilon = sqrt(D h T) is a length,
    so that h means what it does in `sghmc`: for large D the stationary variance on a quadratic is (T / lambda)
    (1 - .153408 x) / (1 - .155863 x + .0057252 x^2), x = h lambda, stable for x < 6.5. The refreshment of a whole step
    leaves the share 1 - alpha of u: the momentum is lost over L = epsilon / log(1 / (1 - alpha)), the L of blackjax,
    whose step_size is epsilon.

    State: u (C, D), drawn uniformly at first, and the gradient (C, D) at theta. Two full gradients a step.

    Source: J. Robnik, G. B. De Luca, E. Silverstein, U. Seljak, "Microcanonical Hamiltonian Monte Carlo", JMLR 2023; J.
    Robnik, U. Seljak, "Fluctuation without dissipation: Microcanonical Langevin Monte Carlo" (arXiv 2303.18221).
    """

    gradients_per_step: ClassVar[int] = 0
    full_gradients_per_step: ClassVar[int] = 2
    full_gradients_at_start: ClassVar[int] = 1
    least_dimension: ClassVar[int] = 2
    zero_temperature: ClassVar[None] = None

    friction: float = param(
        0.1, "(0, 1)", "alpha, the share of the velocity lost in a step", source="as sghmc; ours", tune="[0.01, 0.9]"
    )

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"u": normalised(noise.normal(theta)), "gradient": potential.full.grad(theta)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        D = theta.shape[1]
        nu = (self.friction / ((1 - self.friction) * D)) ** 0.5
        u = normalised(state["u"] + nu * noise.normal(theta))
        theta, u, g, _ = mclachlan(theta, u, state["gradient"], (D * h * T).sqrt(), T, potential.full.grad)
        return theta, {"u": normalised(u + nu * noise.normal(theta)), "gradient": g}

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if min(T) <= 0:
            raise UsageError("mclmc has no T = 0: its schedule must keep the temperature above 0 at every step")
