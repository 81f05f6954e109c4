"""Santa: a thermostat that explores while it is annealed, and an optimiser in the end (Chen et al. 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Santa(Sampler):
    """A preconditioned thermostat per coordinate at the inverse temperature beta_t = t^anneal / T.

        V     <- decay V + (1 - decay) g^2,   P = sqrt(lam + sqrt(V)),   g = grad U(theta)
        theta <- theta + u / (2 P)
        alpha <- alpha + (u^2 / T - h / t^anneal) / 2                              while T > 0
        u     <- exp(-alpha/2) u - h g / (2 P) + sqrt(2 G2 h^1.5 / beta_t) xi      (xi while T > 0)
        u     <- exp(-alpha/2) u - h g / (2 P)
        alpha <- alpha + (u^2 / T - h / t^anneal) / 2                              while T > 0
        theta <- theta + u / (2 P)

    T > 0 is the exploration, T = 0 the refinement, in which alpha stays as it is: a schedule with temperature stages
    makes both. Exploring at a fixed temperature (anneal = 0) the thermostats hold the time average of u_i^2 at h T.
    Annealed, it is an optimiser, and has no stationary law. The derivative of P is left out, as in the authors' code,
    and g is that of the position before the first half of the move. Neither the code's running mean of g nor its
    constants (G2 = 100, alpha from 1000 sqrt(h)), which suit h near 1e-6, are followed.

    State: u from N(0, h T), alpha from `friction` sqrt(h), V from 0, the count of steps (C, 1). One gradient a step.

    Source: C. Chen, D. Carlson, Z. Gan, C. Li, L. Carin, "Bridging the Gap between Stochastic Gradient MCMC and
    Stochastic Optimization", AISTATS 2016; the splitting as in the authors' code.
    """

    step_unit: ClassVar[int] = 0

    decay: float = param(0.999, "[0, 1)", "smoothing factor of the squared gradient", source="Chen et al., code")
    lam: float = param(1e-4, "(0, inf)", "added to the size, in units of grad U", unit=1, source="Chen et al., code")
    anneal: float = param(0.5, "[0, 4]", "exponent of the annealing", source="Chen et al., code")
    diffusion: float = param(1.0, "[0, inf)", "G2, strength of the injected noise", source="ours, for h near 0.01")
    friction: float = param(
        1.0, "[0, inf)", "first alpha over sqrt(h)", source="ours, for h near 0.01", tune="[0.1, 10]"
    )

    @staticmethod
    def zero_temperature(  # type: ignore[override]
        sampler: Santa, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Momentum in units of P, with the friction that the first step size gives."""
        V = g.square() + sampler.decay * (memory.get("V", 0 * g) - g.square())
        alpha = memory.get("alpha", sampler.friction * h.sqrt())
        half = (-alpha / 2).exp()
        kick = h * g / (sampler.lam + V.sqrt()).sqrt()
        u = memory.get("u", 0 * g)
        new = half * half * u - (1 + half) * kick / 2
        return theta + (u + new) / (sampler.lam + V.sqrt()).sqrt() / 2, {"V": V, "alpha": alpha, "u": new}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        import torch

        return {
            "u": (h * T).sqrt() * noise.normal(theta),
            "alpha": self.friction * h.sqrt() * torch.ones_like(theta),
            "V": torch.zeros_like(theta),
            "t": theta.new_zeros((len(theta), 1), dtype=torch.int64),
        }

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g, u, alpha, t = potential.grad(theta), state["u"], state["alpha"], state["t"] + 1
        V = self.decay * state["V"] + (1 - self.decay) * g * g
        P = (self.lam + V.sqrt()).sqrt()
        cooled = (-self.anneal * t.to(theta.dtype).log()).exp()  # 1 / t^anneal
        kick = h * g / (2 * P)
        xi = (2 * self.diffusion * cooled * T).sqrt() * (0.75 * h.log()).exp() * noise.normal(theta)

        theta = theta + u / (2 * P)
        alpha = self._heat(alpha, u, h, T, cooled)
        u = (-alpha / 2).exp() * u - kick + xi
        u = (-alpha / 2).exp() * u - kick
        alpha = self._heat(alpha, u, h, T, cooled)
        return theta + u / (2 * P), {"u": u, "alpha": alpha, "V": V, "t": t}

    def _heat(self, alpha: Tensor, u: Tensor, h: Tensor, T: Tensor, cooled: Tensor) -> Tensor:
        """alpha after half a step of the thermostats; unchanged at T = 0."""
        import torch

        warm = torch.where(T > 0, T, math.inf)
        return alpha + (u.square() / warm - h * cooled * (T > 0)) / 2

    def limit_bias(self) -> None:
        return None
