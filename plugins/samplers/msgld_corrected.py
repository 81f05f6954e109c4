"""MSGLD at a corrected temperature: our extension, with its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import Noise, Potential
from plugins.samplers.msgld import MSGLD

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class MSGLDCorrected(MSGLD):
    """msgld with the temperature of its noise raised to (1 + a) T, so that soft directions see T.

        theta <- theta - h (g + a m) + sqrt(2 h (1 + a) T) xi,    g = grad U(theta), xi ~ N(0, I)
        m     <- beta1 m + (1 - beta1) g

    Not published by anyone: ours, to see what is left of msgld's gain once its bias is gone. Target exp(-U/T) as
    h -> 0. Where the correction is right, x (1 + a) << 1 - beta1 with x = h lambda, m is g and the sampler is sgld with
    step (1 + a) h: it gains nothing over that. Where it is not right, it is far off: at a = 10, beta1 = 0.9, x = 0.1
    the variance is 13 times too wide, for stiff directions of msgld see T already. The stationary variance is 1 + a
    times msgld's, and the stability limit is the same. State: m, from 0. One gradient a step.

    Source: ours; msgld as in S. Kim, Q. Song, F. Liang, "Stochastic gradient Langevin dynamics with adaptive drifts",
    Journal of Statistical Computation and Simulation 92, 2022.
    """

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return super().step(theta, state, potential, h, (1 + self.a) * T, noise)

    def limit_bias(self) -> float:
        return 1.0
