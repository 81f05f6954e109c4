"""Stochastic gradient Nose-Hoover thermostat (Ding et al. 2014): the friction finds the noise of the gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SGNHT(Sampler):
    """Underdamped Langevin dynamics whose friction follows the kinetic energy, one thermostat a chain.

        v     <- (1 - alpha) v - h grad U(theta) + sqrt(2 a h T) xi,    xi ~ N(0, I)
        theta <- theta + v
        alpha <- alpha + |v|^2 / D - h T

    Whatever noise the gradient has, alpha grows until v has the variance h T: the time average of |v|^2 / (D h T) is 1
    at every h. With V the variance of a coordinate of the gradient that is where alpha (2 - alpha) = 2 a + h V / T, so
    alpha comes to 1 - sqrt(1 - 2 a - h V / T), about a + h V / (2 T). On a quadratic potential the variance of theta
    then tends to (1 - alpha/2) T / lambda as h -> 0, since this discretisation has v right where sghmc has theta. alpha
    is a sum of fluctuations of size 1 / sqrt(D): with few
    coordinates it wanders below 0 and a chain may diverge (3 of 200 at D = 2, a = 0.1).

    State: v, started at N(0, h T), and alpha (C, 1), started at a. One gradient a step.

    Source: N. Ding, Y. Fang, R. Babbush, C. Chen, R. Skeel, H. Neven, "Bayesian Sampling Using Stochastic Gradient
    Thermostats", NIPS 2014, algorithm 2, in the velocity form (step epsilon: h = epsilon^2, alpha = epsilon xi).
    """

    a: float = param(
        0.01,
        "(0, 0.5)",
        "strength of the injected noise, and first friction",
        source="as posteriors, blackjax",
        tune="[1e-3, 0.4]",
    )

    @staticmethod
    def zero_temperature(  # type: ignore[override]
        sampler: SGNHT, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """v <- (1 - alpha) v - h g; theta <- theta + v; alpha <- alpha + |v|^2 / D, from a."""
        alpha, v = memory.get("alpha", sampler.a + 0 * g[:, :1]), memory.get("v", 0 * g)
        v = v - alpha * v - h * g
        return theta + v, {"v": v, "alpha": alpha + v.square().sum(1, keepdim=True) / g.shape[1]}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        friction = theta.new_full((len(theta), 1), self.a)
        return {"v": (h * T).sqrt() * noise.normal(theta), "alpha": friction}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        kick = (2 * self.a * h * T).sqrt() * noise.normal(theta)
        v = (1 - state["alpha"]) * state["v"] - h * potential.grad(theta) + kick
        return theta + v, {"v": v, "alpha": state["alpha"] + v.square().mean(1, keepdim=True) - h * T}

    def limit_bias(self) -> float:
        return (1 + (1 - 2 * self.a) ** 0.5) / 2
