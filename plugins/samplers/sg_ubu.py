"""Langevin dynamics by the UBU splitting on minibatches (Paulin et al. 2025): friction and drift solved as one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SGUBU(Sampler):
    """Underdamped Langevin dynamics: half of the motion without a force, a kick, the other half.

        U    theta <- theta + (1 - eta) / k v + xi_theta,    v <- eta v + xi_v,    eta = exp(-k/2), k = -log(1 - alpha)
        B    v     <- v - h grad U(theta)
        U    as before

        var xi_v = h T (1 - eta^2),   var xi_theta = h T (k - 3 + 4 eta - eta^2) / k^2,   cov = h T (1 - eta)^2 / k

    Target exp(-U/T) as h -> 0. U is exact: drift, friction and noise are solved together, as an Ornstein-Uhlenbeck
    process and its integral, where BAOAB splits them. On a quadratic with x = h lambda the stationary variance of theta
    is (T / lambda) (1 - c x + ...), c = ((1 - eta^2) + k (1 - 4 eta + eta^2) / 2) / (k^2 (1 - eta^2)), which is 1/6 at
    small friction: 1 - x/6 within 1 % at alpha = 0.1 and x < 3.6. It is too small, where that of obabo and sghmc is too
    large. Stable for x < 2 k (1 + eta^2) / (1 - eta^2), which is 4 or more. The kick acts in the middle of the step, so
    the gradient is that of theta after the first U.

    The bias in h is of the second order in epsilon = sqrt(h) if gamma is fixed, and so is that of minibatches where an
    epoch goes forwards and the next one backwards through the same batches: SMS-UBU is sg-ubu with
    `--set run.batch_order=symmetric`. In the physical form with mass 1, friction gamma and step epsilon: h = epsilon^2,
    k = gamma epsilon; v here is epsilon times the velocity. State: v, started at N(0, h T). One gradient and four
    normal vectors a step.

    Source: D. Paulin, P. A. Whalley, N. K. Chada, B. Leimkuhler, "Sampling from Bayesian Neural Network Posteriors with
    Symmetric Minibatch Splitting Langevin Dynamics", AISTATS 2025, arXiv 2410.19780.
    """

    zero_temperature: ClassVar[None] = None
    exempt: ClassVar[Mapping[str, str]] = {
        "potential": "the gradient is that of theta after half of the motion without a force"
    }

    friction: float = param(
        0.1,
        "[1e-3, 1)",
        "alpha, the share of the velocity lost in a step",
        source="as sghmc; ours",
        tune="[0.01, 0.99]",
    )

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"v": (h * T).sqrt() * noise.normal(theta)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        middle, v = self.free(theta, state["v"], (h * T).sqrt(), noise)
        v = v - h * potential.grad(middle)
        theta, v = self.free(middle, v, (h * T).sqrt(), noise)
        return theta, {"v": v}

    def free(self, theta: Tensor, v: Tensor, heat: Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        """U: half a step without a force; `heat` is sqrt(h T)."""
        drift, eta, spread, shared, rest = self.coefficients()
        xi, other = noise.normal(theta), noise.normal(theta)
        return theta + drift * v + heat * (shared * xi + rest * other), eta * v + heat * spread * xi

    def coefficients(self) -> tuple[float, float, float, float, float]:
        """Return (1 - eta) / k, eta, and the factors of xi in v, of xi in theta, and of the other normal in theta."""
        k = -math.log1p(-self.friction)
        eta = math.exp(-k / 2)
        spread = math.sqrt(1 - eta**2)
        shared = (1 - eta) ** 2 / k / spread
        return (1 - eta) / k, eta, spread, shared, math.sqrt((k - 3 + 4 * eta - eta**2) / k**2 - shared**2)
