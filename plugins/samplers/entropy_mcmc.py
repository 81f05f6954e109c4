"""Entropy-MCMC (Li and Zhang 2024): SGLD tied to an anchor that looks for wide basins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import Noise, Potential, Sampler, UsageError, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class EntropyMCMC(Sampler):
    """SGLD on the pair (theta, s) of energy U(theta) + |theta - s|^2 / (2 eta).

        theta <- theta - h (grad U(theta) + (theta - s) / eta) + sqrt(2 h T) xi,    xi, xi' ~ N(0, I)
        s     <- s - h ((s - theta) / eta + delta s) + sqrt(2 h T) xi',            both from the old values

    Integrating s out leaves exp(-U/T) for theta, which is the draw. s follows exp(-U/T) smoothed by N(0, eta T), moves
    towards wide basins and pulls theta along. The authors pool theta and s; that mixture is not the posterior. Their
    weight decay acts on s as well: with delta, the precision of the prior in their code, theta has a further prior of
    precision delta / (1 + eta delta), so its law is not exp(-U/T). Here delta is 0 unless it is set.

    On a quadratic without delta, with x = h lambda, k = h / eta and D = 1 - x/2 - k + k x/4, the stationary variance
    of theta is (T / lambda) (1 - k) / D; stable for k < 1 and x < 4 (1 - k) / (2 - k). In the limit theta has 1 and s
    1 + eta lambda, over T / lambda. State: s, started at theta. One gradient a step.

    Source: B. Li, R. Zhang, "Entropy-MCMC: Sampling from Flat Basins with Ease", ICLR 2024, algorithm 1 (h = lr / N,
    the same eta and T).
    """

    eta: float = param(
        1.0,
        "(0, inf)",
        "variance of theta - s at T = 1; above h",
        unit=-1,
        source="ours; 4e-4 in the authors' code",
        tune="[1e-3, 10]",
    )
    delta: float = param(
        0.0, "[0, inf)", "precision of a prior on the anchor; N times the weight decay in the authors' code", unit=1,
        source="ours",
    )  # fmt: skip

    @staticmethod
    def zero_temperature(  # type: ignore[override]
        sampler: EntropyMCMC, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Gradient descent on the energy of the pair."""
        s = memory.get("s", theta)
        pull = (theta - s) / sampler.eta
        return theta - h * (g + pull), {"s": s + h * (pull - sampler.delta * s)}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"s": theta}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        s, spread = state["s"], (2 * h * T).sqrt()
        pull = (theta - s) / self.eta
        moved = theta - h * (potential.grad(theta) + pull) + spread * noise.normal(theta)
        return moved, {"s": s + h * (pull - self.delta * s) + spread * noise.normal(theta)}

    def limit_bias(self) -> float | None:
        return None if self.delta else 1.0

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if max(h) >= self.eta:
            raise UsageError(
                f"entropy-mcmc: a step of h = {max(h):g} is not below eta = {self.eta:g}, where the pull towards the "
                f"anchor is unstable; lower schedule.step_size or raise sampler.eta"
            )
