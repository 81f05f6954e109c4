"""Gradient-guided Monte Carlo (Garriga-Alonso and Fortuin 2021): OBABO on a minibatch, Metropolis on all the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class GGMC(Sampler):
    """L turns of Langevin dynamics with gradients g of minibatches, then one Metropolis test; a = 1 - alpha.

        L times:  O  r <- sqrt(a) r + sqrt((1 - a) T) xi,    xi ~ N(0, I)
                  B  r <- r - sqrt(h)/2 g(theta);   A  theta <- theta + sqrt(h) r;   B;   O
        accept with probability min(1, exp(-(U(theta_L) - U(theta_0) + sum dK) / T)),   U on all the data

    g is the full gradient at both ends of the stretch, where U is computed as well, and between them that of a
    minibatch, a new one for each of the L - 1 points. dK is the change of |r|^2 / 2 across each B A B; O, which leaves
    N(0, T) as it is, has no part in it. Where a proposal is refused theta_0 comes back and r is -r_0. The turns go back
    through the same points when r is turned round and the minibatches come in the opposite order, which is as likely,
    so the target is exp(-U/T), exactly, at every h < 4 / lambda and every size of minibatch; small ones only lower the
    acceptance: on blr-australian at h lambda = 0.003, batches of 32 of 690 rows and 10 turns, to 38 %, where one batch
    for the whole stretch leaves 3 %. The authors put r_0 back with its sign unchanged, which is not exact. Only the
    ends of stretches are draws.

    r is the momentum: the velocity of `obabo` is sqrt(h) r, so r ~ N(0, T I) whatever h is, and a schedule may change h
    between steps. State: r and the full gradient at theta (C, D), and U(theta) (C,). L - 1 gradients and one full-data
    pass a step.

    Source: A. Garriga-Alonso, V. Fortuin, "Exact Langevin Dynamics with Stochastic Gradients", 2021.
    """

    full_gradients_per_step: ClassVar[int] = 1
    full_gradients_at_start: ClassVar[int] = 1
    zero_temperature: ClassVar[None] = None
    exempt: ClassVar = {"potential": "a stretch begins with the full gradient, which the state keeps"}

    turns: int = param(
        10, "[1, 10000]", "L, turns between two tests", source="ours; an epoch in the authors' code", tune="[1, 100]"
    )
    friction: float = param(
        0.1,
        "(0, 1]",
        "alpha, one minus the momentum a",
        source="as sghmc; 0.006 in the authors' code",
        tune="[0.01, 1]",
    )

    @property
    def gradients_per_step(self) -> int:  # type: ignore[override]
        return self.turns - 1

    @property
    def batches_per_step(self) -> int:  # type: ignore[override]
        return max(1, self.turns - 1)

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        energy, gradient = potential.full.value_and_grad(theta)
        return {"r": T.sqrt() * noise.normal(theta), "energy": energy, "gradient": gradient}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        a, epsilon = 1 - self.friction, h.sqrt()
        x, r, kinetic = theta, state["r"], 0 * state["energy"]
        energy, g = state["energy"], state["gradient"]
        lost = ~(theta + g).isfinite().all(1, keepdim=True)
        for turn in range(1, self.turns + 1):
            r = a**0.5 * r + ((1 - a) * T).sqrt() * noise.normal(theta)
            before = r.square().sum(1)
            r = r - epsilon / 2 * g
            x = x + epsilon * r
            if turn < self.turns:
                g = potential.grad(x)
            else:
                energy, g = potential.full.value_and_grad(x)
            if turn == 1:  # a chain that is lost, or whose gradient is, stays lost, and is seen to be
                lost = lost | ~g.isfinite().all(1, keepdim=True)
            r = r - epsilon / 2 * g
            kinetic = kinetic + (r.square().sum(1) - before) / 2
            r = a**0.5 * r + ((1 - a) * T).sqrt() * noise.normal(theta)

        log_ratio = -((energy - state["energy"] + kinetic)[:, None]) / T
        moved = (noise.uniform((len(theta), 1)).log() < log_ratio) | lost
        return x.where(moved, theta), {
            "r": r.where(moved, -state["r"]),
            "energy": energy.where(moved[:, 0], state["energy"]),
            "gradient": g.where(moved, state["gradient"]),
        }

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if min(T) <= 0:
            raise UsageError("ggmc has no T = 0: its schedule must keep the temperature above 0 at every step")
