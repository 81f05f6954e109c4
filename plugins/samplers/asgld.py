"""Adam SGLD: a drift biased by past gradients in units of their size (Kim, Song, Liang 2022, Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ASGLD(Sampler):
    """SGLD whose drift has a times the rescaled mean of the *past* stochastic gradients added.

        theta <- theta - h (g + a m / sqrt(V + lam)) + sqrt(2 h T) xi,    g = grad U(theta), xi ~ N(0, I)
        m     <- beta1 m + (1 - beta1) g
        V     <- beta2 V + (1 - beta2) g^2

    m and V in the drift lag: they do not contain the current g. There is no correction for their start at 0, where m /
    sqrt(V + lam) is 0 by lam alone. a is a gradient, not a number: on c U it must be c a. With V held still it is msgld
    with a / sqrt(V + lam) in place of a, whose stationary variance tends to T / lambda / (1 + a / sqrt(V + lam)) as
    h -> 0; where V follows theta, steps so small that m and V are g and g^2 sample exp(-(U + a sum |theta_i - mode_i|)
    / T) of a diagonal Gaussian: a standard normal comes out with variance 0.475 at a = 1 and 0.0191 at a = 10.
    State: m and V, from 0. One gradient a step.

    Source: S. Kim, Q. Song, F. Liang, "Stochastic gradient Langevin dynamics with adaptive drifts", Journal of
    Statistical Computation and Simulation 92, 2022, algorithm 2.
    """

    adaptive: ClassVar[tuple[str, ...]] = ("V",)

    a: float = param(
        1.0,
        "[0, inf)",
        "bias factor, in units of grad U",
        unit=1,
        source="Kim et al. 2022, A.3 (mixture)",
        tune="[0.1, 10]",
    )
    beta1: float = param(
        0.9, "[0, 1)", "smoothing factor of the mean", source="Kim et al. 2022, A.3", tune="[0.5, 0.99]"
    )
    beta2: float = param(0.999, "[0, 1)", "smoothing factor of the square", source="Kim et al. 2022, 3.2")
    lam: float = param(
        1e-5,
        "(0, inf)",
        "added to V, in units of grad U squared",
        unit=2,
        source="Kim et al. 2022, table A1",
        tune="[1e-12, 1e-2]",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta1**2 >= self.beta2 > 0:
            raise UsageError(
                f"asgld: beta1^2 = {self.beta1**2:g} is not below beta2 = {self.beta2:g}, so m / sqrt(V) has no bound"
            )

    @staticmethod
    def zero_temperature(  # type: ignore[override]
        sampler: ASGLD, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """theta <- theta - h (g + a m / sqrt(V + lam)); then m, V."""
        m, V = memory.get("m", 0 * g), memory.get("V", 0 * g)
        memory = {
            "m": g + sampler.beta1 * (m - g),
            "V": g.square() + sampler.beta2 * (V - g.square()),
        }
        return theta - h * g - h * sampler.a * m / (V + sampler.lam).sqrt(), memory

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        zero = theta.new_zeros(theta.shape)
        return {"m": zero, "V": zero}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g, m, V = potential.grad(theta), state["m"], state["V"]
        xi = noise.normal(theta)
        theta = theta - h * (g + self.a * m / (V + self.lam).sqrt()) + (2 * h * T).sqrt() * xi
        return theta, {
            "m": self.beta1 * m + (1 - self.beta1) * g,
            "V": self.beta2 * V + (1 - self.beta2) * g * g,
        }

    def limit_bias(self) -> float:
        """With V held still at its start, 0: 1 / (1 + a / sqrt(lam))."""
        return 1 / (1 + self.a / self.lam**0.5)
