"""Adamax SGLD: a drift biased by past gradients in units of their largest size; the MSGLD paper only names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class AdamaxSGLD(Sampler):
    """SGLD whose drift has a times the mean of the *past* stochastic gradients over their largest size added.

        theta <- theta - h (g + a m / (u + lam)) + sqrt(2 h T) xi,    g = grad U(theta), xi ~ N(0, I)
        m     <- beta1 m + (1 - beta1) g
        u     <- max(beta2 u, |g|)

    m and u lag: they do not contain the current g. There is no correction for the start of m at 0. a is a gradient, not
    a number: on c U it must be c a. With u held still it is msgld with a / (u + lam) in place of a, whose stationary
    variance tends to T / lambda / (1 + a / (u + lam)) as h -> 0; where u follows theta, steps so small that m and u are
    g and |g| sample exp(-(U + a sum |theta_i - mode_i|) / T) of a diagonal Gaussian, as asgld does: a standard normal
    comes out with variance 0.475 at a = 1. State: m and u, from 0. One gradient a step.

    Source: ours, after algorithm 2 of S. Kim, Q. Song, F. Liang, "Stochastic gradient Langevin dynamics with adaptive
    drifts", Journal of Statistical Computation and Simulation 92, 2022, which names the method and gives no formula; m
    and u as in D. P. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, algorithm 2.
    """

    adaptive: ClassVar[tuple[str, ...]] = ("u",)

    a: float = param(
        1.0, "[0, inf)", "bias factor, in units of grad U", unit=1, source="ours: as asgld", tune="[0.1, 10]"
    )
    beta1: float = param(0.9, "[0, 1)", "smoothing factor of the mean", source="Kingma, Ba 2015", tune="[0.5, 0.99]")
    beta2: float = param(0.999, "[0, 1)", "decay of the largest size", source="Kingma, Ba 2015")
    lam: float = param(1e-2, "(0, inf)", "added to u, in units of grad U", unit=1, source="ours", tune="[1e-8, 1]")

    @staticmethod
    def zero_temperature(  # type: ignore[override]
        sampler: AdamaxSGLD, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """theta <- theta - h (g + a m / (u + lam)); then m, u."""
        m, u = memory.get("m", 0 * g), memory.get("u", 0 * g)
        memory = {"m": g + sampler.beta1 * (m - g), "u": g.abs().where(g.abs() > sampler.beta2 * u, sampler.beta2 * u)}
        return theta - h * g - h * sampler.a * m / (u + sampler.lam), memory

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        zero = theta.new_zeros(theta.shape)
        return {"m": zero, "u": zero}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g, m, u = potential.grad(theta), state["m"], state["u"]
        xi = noise.normal(theta)
        theta = theta - h * (g + self.a * m / (u + self.lam)) + (2 * h * T).sqrt() * xi
        return theta, {"m": self.beta1 * m + (1 - self.beta1) * g, "u": (self.beta2 * u).maximum(g.abs())}

    def limit_bias(self) -> float:
        """With u held still at its start, 0: 1 / (1 + a / lam)."""
        return 1 / (1 + self.a / self.lam)
