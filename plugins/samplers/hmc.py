"""Hamiltonian Monte Carlo on the full potential: the reference that stochastic gradients are measured against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class HMC(Sampler):
    """L leapfrog steps of size epsilon on the full U, then Metropolis, each chain on its own.

        r ~ N(0, T I);   L times:  r <- r - epsilon/2 grad U,  theta <- theta + epsilon r,  r <- r - epsilon/2 grad U
        accept with probability min(1, exp(-dH / T)),   H = U(theta) + |r|^2 / 2

    Target exp(-U/T), exactly. epsilon = s sqrt(h) (1 + jitter (2u - 1)) with u uniform, drawn for each chain at every
    step, so that no trajectory length resonates. Stable for epsilon^2 lambda < 4. s starts at 1; after burn-in step t,

        log s <- log s + (t + 10)^-0.6 (min(1, exp(-dH / T)) - acceptance),

    and it is frozen from the first draw on. Without `resample`, r is drawn once: it goes on where a proposal is
    accepted and turns round where one is refused. The target stays invariant, but a chain keeps to the level of
    H that it started on, give or take the error of the leapfrog steps: it is not ergodic.

    State: energy (C,) and gradient (C, D) at theta, and (C, 1) each log s, t and the last acceptance probability; r
    (C, D) where it is kept. L full gradients a step, none on minibatches.

    Source: R. M. Neal, "MCMC using Hamiltonian dynamics", 2011; C. Andrieu, J. Thoms, "A tutorial on adaptive MCMC",
    Statistics and Computing 18, 2008 (adaptation, algorithm 4).
    """

    gradients_per_step: ClassVar[int] = 0
    zero_temperature: ClassVar[None] = None

    leapfrog: int = param(10, "[1, 1000]", "L, leapfrog steps a proposal", source="ours", tune="[1, 50]")
    jitter: float = param(
        0.5, "[0, 1)", "share by which the step size varies", source="ours: 0.2 resonates on blr-german"
    )
    resample: bool = param(True, meaning="whether each proposal draws r anew", source="Neal 2011")
    acceptance: float = param(0.8, "(0, 1)", "mean acceptance wanted", source="between Neal's 0.65 and 0.9")

    @property
    def full_gradients_per_step(self) -> int:  # type: ignore[override]
        return self.leapfrog

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        energy, gradient = potential.full.value_and_grad(theta)
        zero = theta.new_zeros((len(theta), 1))
        state = {"energy": energy, "gradient": gradient, "log_scale": zero, "adapted": zero, "accept": zero}
        return state if self.resample else {**state, "r": T.sqrt() * noise.normal(theta)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        momentum = T.sqrt() * noise.normal(theta) if self.resample else state["r"]
        jitter = 1 + self.jitter * (2 * noise.uniform((len(theta), 1)) - 1)
        threshold = noise.uniform((len(theta), 1)).log()
        epsilon = h.sqrt() * state["log_scale"].exp() * jitter

        full = potential.full
        r = momentum - epsilon / 2 * state["gradient"]
        x = theta + epsilon * r
        for _ in range(self.leapfrog - 1):
            r = r - epsilon * full.grad(x)
            x = x + epsilon * r
        energy, gradient = full.value_and_grad(x)
        r = r - epsilon / 2 * gradient

        kinetic = (r.square().sum(1) - momentum.square().sum(1)) / 2
        log_ratio = -((energy - state["energy"] + kinetic)[:, None]) / T
        accept = log_ratio.nan_to_num(nan=float("-inf")).clamp(max=0).exp()
        lost = ~theta.isfinite().all(1, keepdim=True)  # a chain that is lost stays lost, and is seen to be
        moved = (threshold < log_ratio) | lost
        kept = {} if self.resample else {"r": r.where(moved, -momentum)}
        return x.where(moved, theta), {
            **kept,
            "log_scale": state["log_scale"],
            "adapted": state["adapted"],
            "energy": energy.where(moved[:, 0], state["energy"]),
            "gradient": gradient.where(moved, state["gradient"]),
            "accept": accept,
        }

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if min(T) <= 0:
            raise UsageError("hmc has no T = 0: its schedule must keep the temperature above 0 at every step")

    def adapt(self, state: dict[str, Tensor], h: Tensor, T: Tensor) -> dict[str, Tensor]:
        t = state["adapted"] + 1
        gain = (-0.6 * (t + 10).log()).exp()  # the bits of a power depend on the number of chains
        log_scale = state["log_scale"] + gain * (state["accept"] - self.acceptance)
        return {**state, "adapted": t, "log_scale": log_scale}
