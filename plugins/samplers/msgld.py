"""Momentum SGLD: a drift biased by the running mean of past gradients (Kim, Song, Liang 2022, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class MSGLD(Sampler):
    """SGLD whose drift has a times the exponential average m of the *past* stochastic gradients added.

        theta <- theta - h (g + a m) + sqrt(2 h T) xi,    g = grad U(theta), xi ~ N(0, I)
        m     <- beta1 m + (1 - beta1) g

    The m in the drift lags: it does not contain the current g. On a quadratic potential with x = h lambda,
    d = beta1 - beta1 x + a x (1 - beta1) and f = 1 - x + beta1, the stationary variance is

        lambda var / T = 2 x [(1 + beta1^2)(1 + d) - 2 beta1 f] / [(1 - d)((1 + d)^2 - f^2)],

    which tends to 1 / (1 + a), not to 1, as h -> 0: the stationary law is not exp(-U/T). Soft directions
    (x (1 + a) << 1 - beta1) see the temperature T / (1 + a), stiff ones T. State: m, from 0. One gradient a step.

    Source: S. Kim, Q. Song, F. Liang, "Stochastic gradient Langevin dynamics with adaptive drifts", Journal of
    Statistical Computation and Simulation 92, 2022.
    """

    zero_temperature: ClassVar[str] = "lagged-momentum"

    a: float = param(
        1.0, "[0, inf)", "bias factor: weight of the momentum in the drift", source="Kim et al., 3.1", tune="[0.1, 10]"
    )
    beta1: float = param(
        0.9, "[0, 1)", "smoothing factor of the running mean", source="Kim et al., 3.1", tune="[0.5, 0.99]"
    )

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"m": theta.new_zeros(theta.shape)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g, m = potential.grad(theta), state["m"]
        xi = noise.normal(theta)
        theta = theta - h * (g + self.a * m) + (2 * h * T).sqrt() * xi
        return theta, {"m": self.beta1 * m + (1 - self.beta1) * g}

    def limit_bias(self) -> float:
        return 1 / (1 + self.a)
