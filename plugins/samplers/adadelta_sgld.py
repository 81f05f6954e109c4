"""Adadelta SGLD: a drift biased by the steps that Adadelta would make; the MSGLD paper only names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class AdadeltaSGLD(Sampler):
    """SGLD whose drift has a times Adadelta's step by the *past* stochastic gradients added.

        d     = sqrt((W + eps) / (V + lam)) p
        theta <- theta - h (g + a d) + sqrt(2 h T) xi,    g = grad U(theta), xi ~ N(0, I)
        W     <- rho W + (1 - rho) d^2
        V     <- rho V + (1 - rho) g^2
        p     <- g

    p is the gradient of the step before and V the mean of its like: d is the step of Adadelta, one step late. Zeiler's
    one constant is two here, for V is in units of grad U squared and W in those of theta squared: on c U, lam must be
    c^2 lam and a, a gradient over a length, c a. With V and W held still it is msgld with beta1 = 0 and a sqrt((W +
    eps) / (V + lam)) in place of a. The mean square of d has its fixed point at W = V eps / lam, where d is p
    sqrt(eps / lam): so the stationary variance tends to T / lambda / (1 + a sqrt(eps / lam)) as h -> 0, with V and W
    still at 0 or after they have settled, which takes (V + lam) / lam / (1 - rho) steps. State: p, V and W, from 0. One
    gradient a step.

    Source: ours, after algorithm 2 of S. Kim, Q. Song, F. Liang, "Stochastic gradient Langevin dynamics with adaptive
    drifts", Journal of Statistical Computation and Simulation 92, 2022, which names the method and gives no formula; d
    as in M. D. Zeiler, "ADADELTA: An Adaptive Learning Rate Method", arXiv 1212.5701, algorithm 1.
    """

    adaptive: ClassVar[tuple[str, ...]] = ("V", "W")

    a: float = param(
        1.0, "[0, inf)", "bias factor, in units of grad U over theta", unit=1, source="ours: as msgld", tune="[0.1, 10]"
    )
    rho: float = param(0.95, "[0, 1)", "smoothing factor of both mean squares", source="Zeiler 2012")
    lam: float = param(
        1e-6, "(0, inf)", "added to V, in units of grad U squared", unit=2, source="Zeiler 2012", tune="[1e-12, 1e-2]"
    )
    eps: float = param(1e-6, "(0, inf)", "added to W, in units of theta squared", source="Zeiler 2012")

    @staticmethod
    def zero_temperature(  # type: ignore[override]
        sampler: AdadeltaSGLD, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """theta <- theta - h (g + a d), d = RMS(d) / RMS(g) p of the step before."""
        p, V, W = (memory.get(name, 0 * g) for name in "pVW")
        d = p * (W + sampler.eps).sqrt() / (V + sampler.lam).sqrt()
        V, W = g.square() + sampler.rho * (V - g.square()), d.square() + sampler.rho * (W - d.square())
        return theta - h * g - h * sampler.a * d, {"p": g, "V": V, "W": W}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        zero = theta.new_zeros(theta.shape)
        return {"p": zero, "V": zero, "W": zero}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g, V, W = potential.grad(theta), state["V"], state["W"]
        d = ((W + self.eps) / (V + self.lam)).sqrt() * state["p"]
        xi = noise.normal(theta)
        theta = theta - h * (g + self.a * d) + (2 * h * T).sqrt() * xi
        return theta, {
            "p": g,
            "V": self.rho * V + (1 - self.rho) * g * g,
            "W": self.rho * W + (1 - self.rho) * d * d,
        }

    def limit_bias(self) -> float:
        return 1 / (1 + self.a * (self.eps / self.lam) ** 0.5)
