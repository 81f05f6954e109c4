"""Langevin dynamics by the OBABO splitting, with the Metropolis test that GGMC adds left out (Garriga-Alonso 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class OBABO(Sampler):
    """Underdamped Langevin dynamics: friction and noise on both sides of a leapfrog step; a = 1 - alpha.

        v     <- a v - (1 + a) / 2 h grad U(theta) + sqrt((1 - a^2) h T) xi,    xi ~ N(0, I)
        theta <- theta + v

    Target exp(-U/T) as h -> 0. This is O B A B O with the borders of neighbouring steps merged: half a kick, O twice
    and half a kick, all at one theta. With x = h lambda the stationary variance on a quadratic is (T / lambda) /
    (1 - x/4), stable for x < 4, at every friction; v v' averages h T before a kick. Gradient noise of variance V
    multiplies it by 1 + h V (1 + a) / (4 T (1 - a)).

    State: v, started at N(0, h T). One gradient a step. `ggmc` is the same with a Metropolis test.

    Source: A. Garriga-Alonso, V. Fortuin, "Exact Langevin Dynamics with Stochastic Gradients", 2021; G. Bussi,
    M. Parrinello, "Accurate sampling using Langevin dynamics", Physical Review E 75, 2007.
    """

    friction: float = param(
        0.1,
        "(0, 1]",
        "alpha, one minus the momentum a",
        source="as sghmc; 0.006 in the authors' code",
        tune="[0.01, 1]",
    )

    @staticmethod
    def zero_temperature(  # type: ignore[override]
        sampler: OBABO, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """v <- a v - (1 + a) / 2 h g; theta <- theta + v."""
        a = 1 - sampler.friction
        v = a * memory.get("v", 0 * g) - (1 + a) / 2 * h * g
        return theta + v, {"v": v}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"v": (h * T).sqrt() * noise.normal(theta)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        a = 1 - self.friction
        kick = ((1 - a * a) * h * T).sqrt() * noise.normal(theta)
        v = a * state["v"] - (1 + a) / 2 * h * potential.grad(theta) + kick
        return theta + v, {"v": v}
