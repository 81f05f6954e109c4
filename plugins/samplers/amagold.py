"""AMAGOLD (Zhang et al. 2020): SGHMC in a reversible form, corrected once in L gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class AMAGOLD(Sampler):
    """L turns of SGHMC whose friction acts on the mean of old and new momentum, then an amortised Metropolis test.

        theta <- theta + sqrt(h) r / 2;   rho = 0
        L times:  r'  <- ((1 - b) r - sqrt(h) g(theta) + 2 sqrt(b T) xi) / (1 + b),    xi ~ N(0, I)
                  rho <- rho + sqrt(h) g(theta).(r + r') / 2;   theta <- theta + sqrt(h) r'   (r'/2 the last time)
        accept with probability min(1, exp((U(theta_0) - U(theta_L) + rho) / T)),   U on all the data

    g is the gradient of a minibatch, a new one for each turn: in either order they are as likely. rho is the energy
    that the gradients took out of the momentum, so no further pass is needed to know it. Where a proposal is refused
    theta_0 comes back and r is -r_0. The target is exp(-U/T), exactly, for h < 4 / lambda and every size of minibatch;
    where h lambda > 4 every proposal is refused. Without the test the stationary variance of theta on a quadratic is
    T / lambda at every h. On blr-australian at h lambda = 0.003, batches of 32 of 690 rows and 10 turns, 34 % of the
    proposals are accepted; with one batch for the whole stretch it would be 2 %.

    r is the momentum: the velocity of the paper is sqrt(h) r, so r ~ N(0, T I) whatever h is, and a schedule may change
    h between steps. A turn loses the share 2 b / (1 + b) of the momentum. The paper's step is h = lr / N. State: r
    (C, D) and U(theta) (C,). L gradients and one full-data pass a step. The authors' networks have the weight decay in
    g and rho, not in U, which is no posterior; here U has the prior.

    Source: R. Zhang, A. F. Cooper, C. De Sa, "AMAGOLD: Amortized Metropolis Adjustment for Efficient Stochastic
    Gradient MCMC", AISTATS 2020, algorithm 1.
    """

    full_gradients_per_step: ClassVar[int] = 1
    full_gradients_at_start: ClassVar[int] = 1
    zero_temperature: ClassVar[None] = None
    exempt: ClassVar = {"potential": "a stretch begins with half a drift: its first gradient is asked for after it"}

    turns: int = param(
        10, "[1, 10000]", "L, gradients between two tests", source="Zhang et al. 2020, code", tune="[1, 100]"
    )
    b: float = param(
        0.0625,
        "(0, 1)",
        "friction; a turn loses 2 b / (1 + b) of the momentum",
        source="toy of Zhang et al., code",
        tune="[0.005, 0.9]",
    )

    @property
    def gradients_per_step(self) -> int:  # type: ignore[override]
        return self.turns

    @property
    def batches_per_step(self) -> int:  # type: ignore[override]
        return self.turns

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        energy, _ = potential.full.value_and_grad(theta)
        return {"r": T.sqrt() * noise.normal(theta), "energy": energy}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        b, epsilon = self.b, h.sqrt()
        r, rho = state["r"], 0 * state["energy"]
        x = theta + epsilon * r / 2
        lost = ~theta.isfinite().all(1, keepdim=True)
        for turn in range(self.turns):
            g = potential.grad(x)
            if not turn:  # a chain that is lost, or whose gradient is, stays lost, and is seen to be
                lost = lost | ~g.isfinite().all(1, keepdim=True)
            new = ((1 - b) * r - epsilon * g + 2 * (b * T).sqrt() * noise.normal(theta)) / (1 + b)
            rho = rho + (epsilon * g * (r + new)).sum(1) / 2
            r = new
            x = x + (epsilon * r if turn + 1 < self.turns else epsilon * r / 2)

        energy, _ = potential.full.value_and_grad(x)
        log_ratio = (state["energy"] - energy + rho)[:, None] / T
        moved = (noise.uniform((len(theta), 1)).log() < log_ratio) | lost
        return x.where(moved, theta), {
            "r": r.where(moved, -state["r"]),
            "energy": energy.where(moved[:, 0], state["energy"]),
        }

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if min(T) <= 0:
            raise UsageError("amagold has no T = 0: its schedule must keep the temperature above 0 at every step")
