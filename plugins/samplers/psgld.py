"""Preconditioned SGLD: Langevin steps in units of each coordinate's gradient (Li et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PSGLD(Sampler):
    """SGLD with the diagonal preconditioner of RMSprop.

        V <- decay V + (1 - decay) g^2,   G = 1 / (lam + sqrt(V)),   g = grad U(theta)
        theta <- theta - h (G g - T Gamma) + sqrt(2 h T G) xi,       xi ~ N(0, I)

    G changes with theta, so exp(-U/T) needs Gamma_i = dG_i / dtheta_i. Everyone drops it, and so does the default. With
    exact gradients that samples, as h -> 0 with `decay` fixed, a density proportional to (lam + |g|) exp(-U/T): a
    standard normal comes out with variance 1.889 at lam = 0.1. Where the noise of the gradient dominates V, G hardly
    depends on theta and the bias is small. With `gamma`, Gamma is estimated from the last step as Li et al. do,

        Gamma_i = -(1 - decay) g_i H_ii G_i^2 / sqrt(V_i),

    H_ii by the secant (g - g of the step before) / (theta - theta before), which corrects little: V follows theta over
    1 / (1 - decay) steps, and Gamma counts one of them. With V held still it is sgld in each coordinate with step h G,
    stable for h G lambda < 2.

    V is of the full-data gradient: published settings are for the mean gradient, from which lam and h follow by a
    factor N. State: V from g^2; with `gamma` also theta and g of the step before. One gradient a step.

    Source: C. Li, C. Chen, D. Carlson, L. Carin, "Preconditioned Stochastic Gradient Langevin Dynamics for Deep Neural
    Networks", AAAI 2016, algorithm 1 (epsilon = 2 h); their code drops Gamma.
    """

    step_unit: ClassVar[int] = 0
    adaptive: ClassVar[tuple[str, ...]] = ("V",)
    zero_temperature: ClassVar[str] = "rmsprop"

    decay: float = param(
        0.99, "[0, 1)", "smoothing factor of the squared gradient", source="Li et al. 2016", tune="[0.8, 0.999]"
    )
    lam: float = param(
        1e-5, "(0, inf)", "added to the size, in units of grad U", unit=1, source="Li et al. 2016", tune="[1e-8, 1]"
    )
    gamma: bool = param(False, meaning="whether the drift has Gamma", source="dropped in the code of Li et al.")

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        g = potential.grad(theta)
        state = {"V": g * g}
        return {**state, "theta": theta, "g": g} if self.gamma else state

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g = potential.grad(theta)
        V = self.decay * state["V"] + (1 - self.decay) * g * g
        G = 1 / (self.lam + V.sqrt())
        drift = G * g
        if self.gamma:
            moved = theta - state["theta"]
            still = moved == 0
            curvature = ((g - state["g"]) / moved.masked_fill(still, 1)).masked_fill(still, 0)
            root = V.sqrt()
            # V = 0 only where g = 0, and Gamma with it.
            drift = drift + T * (1 - self.decay) * g * curvature * G * G / root.masked_fill(root == 0, 1)
        xi = noise.normal(theta)
        moved_to = theta - h * drift + (2 * h * T * G).sqrt() * xi
        return moved_to, {"V": V, "theta": theta, "g": g} if self.gamma else {"V": V}
