"""SamAdams (2025): BAOAB whose step follows a moving average of the squared gradient, by a change of time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SamAdams(Sampler):
    """Underdamped Langevin dynamics in steps psi sqrt(h), split as Z B A O A B Z; a draw weighs psi.

        Z    z     <- rho z + (1 - rho) |g|^2 / omega,    psi = m (z^r + M) / (z^r + m),    rho = exp(-rate / 2)
        B    v     <- v - psi h g / 2
        A    theta <- theta + psi v / 2
        O    v     <- c v + sqrt((1 - c^2) h T) xi,    c = (1 - alpha)^psi,    xi ~ N(0, I)
        A    theta <- theta + psi v / 2
        B, Z as before, with g = grad U of the new theta; B with the psi of this step

    psi falls from M at z = 0 to m, so steps are short where gradients have been large. It is a change of time: the
    chain makes 1/psi as many steps per unit of time, and averages with the weights psi have the target exp(-U/T) as
    h -> 0; plain averages have another one. The weight of a draw is psi after the last Z, which is that of the middle
    of a symmetric step: with exact gradients the bias is of the order of h.

    With z held a step is that of baoab with psi^2 h: exact on a quadratic at every stable step, psi^2 h lambda < 4, so
    M^2 h lambda < 4 is safe. psi has the noise of the gradient that the first B uses. That weakens the drift by a
    share that does not vanish as h -> 0 at a fixed rate: with the variance V = 10 lambda T the variance of theta is 8 %
    too large in one dimension, and under 1 % in ten dimensions or at rate = 0.02.

    v is sqrt(h) times the velocity, so h = dtau^2; alpha = 1 - exp(-gamma dtau), rate = alpha dtau and omega = alpha/s
    in their symbols. z starts at |g|^2 / omega, its value at rest; theirs at s |g|^2. State: v, started at N(0, h T), g
    at theta, and z (C, 1). One gradient a step.

    Source: B. Leimkuhler, R. Lohmann, P. A. Whalley, "A Langevin sampling algorithm inspired by the Adam optimizer",
    arXiv 2504.18911v2.
    """

    adaptive: ClassVar[tuple[str, ...]] = ("z",)
    gradient_at: ClassVar[str] = "end"

    friction: float = param(
        0.1,
        "(0, 1)",
        "alpha, the share of the velocity lost in a step of psi = 1",
        source="as sghmc; 0.002 in the authors' code",
        tune="[0.01, 0.99]",
    )
    rate: float = param(
        1.0, "(0, inf)", "z forgets all but exp(-rate) of itself in a step", source="authors' code: 500 times 0.002"
    )
    omega: float = param(
        1.0, "(0, inf)", "divisor of |g|^2", unit=2, source="ours; 1/120 in the authors' code", tune="[1e-2, 1e8]"
    )
    least: float = param(0.1, "(0, inf)", "m, smallest psi", source="authors' code", tune="[0.01, 1]")
    most: float = param(10.0, "(0, inf)", "M, largest psi", source="authors' code", tune="[1, 100]")
    power: float = param(0.25, "(0, inf)", "r", source="authors' code")

    @staticmethod
    def zero_temperature(
        sampler: SamAdams, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """v <- v - psi_old h g / 2, z twice, v <- v - psi h g / 2; theta <- theta + psi (1 + c) / 2 v; v <- c v."""
        left, size = math.exp(-sampler.rate / 2), g.square().sum(1, keepdim=True) / sampler.omega
        v, z = memory.get("v", 0 * g), memory.get("z", size)
        v = v - memory.get("half", 0 * size) * g
        if memory:
            z = left * z + (1 - left) * size
        z = left * z + (1 - left) * size
        psi = sampler.least * (z**sampler.power + sampler.most) / (z**sampler.power + sampler.least)
        half, c = psi * h / 2, (1 - sampler.friction) ** psi
        v = v - half * g
        return theta + psi * (1 + c) / 2 * v, {"v": c * v, "z": z, "half": half}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        g = potential.grad(theta)
        return {"v": (h * T).sqrt() * noise.normal(theta), "g": g, "z": g.square().sum(1, keepdim=True) / self.omega}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g, z = state["g"], self._followed(state["z"], state["g"])
        psi = self._log_psi(z).exp()
        c = (math.log1p(-self.friction) * psi).exp()
        v = state["v"] - psi * h / 2 * g
        theta = theta + psi / 2 * v
        v = c * v + ((1 - c * c) * h * T).sqrt() * noise.normal(theta)
        theta = theta + psi / 2 * v
        g = potential.grad(theta)
        return theta, {"v": v - psi * h / 2 * g, "g": g, "z": self._followed(z, g)}

    def log_weight(self, state: dict[str, Tensor]) -> Tensor:
        return self._log_psi(state["z"])[:, 0]

    def _followed(self, z: Tensor, g: Tensor) -> Tensor:
        left = math.exp(-self.rate / 2)
        return left * z + (1 - left) * g.square().sum(1, keepdim=True) / self.omega

    def _log_psi(self, z: Tensor) -> Tensor:
        root = (self.power * z.log()).exp()  # the bits of a power depend on the number of chains
        return (self.least * (root + self.most) / (root + self.least)).log()
