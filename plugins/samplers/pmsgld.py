"""Preconditioned MSGLD: adaptive drift under an adaptive preconditioner; the MSGLD paper only names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PMSGLD(Sampler):
    """msgld with psgld's preconditioner in front of its drift and under its noise.

        G     = 1 / (lam + sqrt(V))
        theta <- theta - h G (g + a m) + sqrt(2 h T G) xi,    g = grad U(theta), xi ~ N(0, I)
        m     <- beta1 m + (1 - beta1) g
        V     <- decay V + (1 - decay) g^2

    m and V lag: they do not contain the current g. With V held still it is msgld in each coordinate with step h G:
    stationary variance T / lambda / (1 + a) as h -> 0. G changes with theta and Gamma_i = dG_i / dtheta_i is dropped,
    as psgld drops it: with exact gradients and steps so small that m and V are g and g^2, the density is proportional
    to (lam + |g|) exp(-(1 + a) U / T). V is of the full-data gradient: settings for the mean gradient, from which lam
    and h follow by a factor N, are as psgld's. State: m from 0, V from the g^2 of one gradient at the start. One
    gradient a step.

    Source: ours, from algorithm 1 of S. Kim, Q. Song, F. Liang, "Stochastic gradient Langevin dynamics with adaptive
    drifts", Journal of Statistical Computation and Simulation 92, 2022, which names the combination and gives no
    formula, and C. Li, C. Chen, D. Carlson, L. Carin, "Preconditioned Stochastic Gradient Langevin Dynamics for Deep
    Neural Networks", AAAI 2016.
    """

    step_unit: ClassVar[int] = 0
    adaptive: ClassVar[tuple[str, ...]] = ("V",)

    a: float = param(
        1.0, "[0, inf)", "bias factor: weight of the momentum in the drift", source="ours: as msgld", tune="[0.1, 10]"
    )
    beta1: float = param(0.9, "[0, 1)", "smoothing factor of the mean", source="ours: as msgld", tune="[0.5, 0.99]")
    decay: float = param(
        0.99, "[0, 1)", "smoothing factor of the squared gradient", source="ours: as psgld", tune="[0.8, 0.999]"
    )
    lam: float = param(
        1e-5, "(0, inf)", "added to the size, in units of grad U", unit=1, source="ours: as psgld", tune="[1e-8, 1]"
    )

    @staticmethod
    def zero_temperature(  # type: ignore[override]
        sampler: PMSGLD, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """theta <- theta - h (g + a m) / (lam + sqrt(V)), V from g^2; then m, V."""
        m, V = memory.get("m", 0 * g), memory.get("V", g.square())
        memory = {"m": g + sampler.beta1 * (m - g), "V": g.square() + sampler.decay * (V - g.square())}
        return theta - h * (g + sampler.a * m) / (V.sqrt() + sampler.lam), memory

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"m": theta.new_zeros(theta.shape), "V": potential.grad(theta).square()}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g, m, V = potential.grad(theta), state["m"], state["V"]
        G = 1 / (self.lam + V.sqrt())
        xi = noise.normal(theta)
        theta = theta - h * G * (g + self.a * m) + (2 * h * T * G).sqrt() * xi
        return theta, {
            "m": self.beta1 * m + (1 - self.beta1) * g,
            "V": self.decay * V + (1 - self.decay) * g * g,
        }

    def limit_bias(self) -> float:
        return 1 / (1 + self.a)
