"""The stochastic gradient lattice random walk: steps of a fixed length, whose signs follow the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SGLRW(Sampler):
    """Each coordinate jumps by plus or minus sqrt(2 h T); the drift is in the probability of the sign.

        theta_i <- theta_i + sqrt(2 h T) s_i,    P(s_i = 1) = (1 - clip(grad_i U(theta) sqrt(h / (2 T)), -1, 1)) / 2

    Target exp(-U/T) as h -> 0. A step has the second moment 2 h T whatever the gradient is: a wild one cannot throw
    the chain, and gradient noise does not widen the marginals. On a quadratic the stationary variance is T / lambda at
    every x = h lambda and every V while the clip is rare (|grad_i U| < sqrt(2 T / h)); with V = 0 it is an
    Ehrenfest urn, binomial with n = 2/x and excess kurtosis -x. Clipping widens: 1.03 at x = 0.5, 1.19 at 1, 1.63 at
    1.9. It never diverges. Noise that is correlated between coordinates still biases covariances.

    At T = 0 it would stand still. State: none. One gradient a step, uniform numbers.

    Source: arXiv 2602.15925, and the implementation in posteriors (lr = h N, temperature = T / N there).
    """

    zero_temperature: ClassVar[None] = None

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        drive = (potential.grad(theta) * (h / (2 * T)).sqrt()).clamp(-1, 1)
        up = noise.uniform(theta.shape) < (1 - drive) / 2
        jump = (2 * h * T).sqrt() + 0 * drive  # a gradient that is not finite is seen in theta
        return theta + jump.where(up, -jump), state

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if min(T) <= 0:
            raise UsageError("sglrw has no T = 0, where it would not move: its schedule must keep T above 0")
