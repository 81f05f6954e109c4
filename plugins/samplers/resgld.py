"""Replica-exchange SGLD (Deng et al. 2020): a hot chain roams and hands its position to the cold one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class RESGLD(Sampler):
    """Two sgld chains, theta at T and theta' at T' = ratio T, that trade places now and then.

        swap theta and theta' with probability rate min(1, exp(d (U(theta) - U(theta') - d s2))),   d = 1/T - 1/T'
        theta  <- theta  - h grad U(theta)  + sqrt(2 h T)  xi
        theta' <- theta' - h grad U(theta') + sqrt(2 h T') xi'

    Target exp(-U/T) as h -> 0; the draws are theta, and theta' is the state. With exact energies the swap leaves
    exp(-U/T) exp(-U'/T') as it is. With noisy ones it does too if the noise of U - U' is normal, of variance 2 s2: the
    correction d s2 takes off what noise in an exponent adds on average. The paper draws a batch for each energy, and
    s2 is the variance of one. Here both are of one minibatch, whose noise they share: s2 is *half the variance of the
    difference* U(theta) - U(theta'), often far less. Noise of another law or variance biases the draws at every h, as
    that of gaussian2d does, whose variance depends on |theta - theta'| (docs/step-bias.md). A swap comes first in a
    step, so that the gradients at the two positions serve for the energies too. State: hot, theta', started at theta.
    Two gradients a step.

    Source: W. Deng, Q. Feng, L. Gao, F. Liang, G. Lin, "Non-convex Learning via Replica Exchange Stochastic Gradient
    MCMC", ICML 2020; rate and ratio as in the code of W. Deng (WayneDW/Contour-Stochastic-Gradient-Langevin-Dynamics).
    """

    gradients_per_step: ClassVar[int] = 2

    ratio: float = param(
        3.0, "(1, inf)", "T' / T, how much hotter the other chain is", source="code of W. Deng", tune="[1.5, 10]"
    )
    rate: float = param(0.1, "[0, 1]", "probability that a step tries to swap", source="code of W. Deng")
    energy_variance: float = param(
        0.0, "[0, inf)", "s2, half the variance of U - U'", unit=2, source="exact energies; ours"
    )

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"hot": theta}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        hot = state["hot"]
        U, g = potential.value_and_grad(theta)
        U_hot, g_hot = potential.value_and_grad(hot)
        d = (1 - 1 / self.ratio) / T
        log_ratio = d * ((U - U_hot)[:, None] - d * self.energy_variance)
        swap = noise.uniform((len(theta), 1)) < self.rate * log_ratio.clamp(max=0).exp()
        theta, hot = hot.where(swap, theta), theta.where(swap, hot)
        g, g_hot = g_hot.where(swap, g), g.where(swap, g_hot)
        theta = theta - h * g + (2 * h * T).sqrt() * noise.normal(theta)
        hot = hot - h * g_hot + (2 * h * self.ratio * T).sqrt() * noise.normal(hot)
        return theta, {"hot": hot}

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if min(T) <= 0:
            raise UsageError("resgld has no T = 0: its schedule must keep the temperature above 0 at every step")
