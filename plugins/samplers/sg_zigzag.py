"""The stochastic gradient zig-zag sampler (Fearnhead et al. 2024): coordinates move at speed 1 and turn uphill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SGZigzag(Sampler):
    """Each coordinate moves at speed 1 and turns round at random, at a rate that is its slope uphill.

        theta_i <- theta_i + v_i h,                           if tau_i >= h
        theta_i <- theta_i + v_i (2 tau_i - h), v_i <- -v_i,  if tau_i < h: it turns once, after tau_i
        tau_i ~ Exp(max(0, v_i g_i) / T),   g = grad U(theta)

    Target exp(-U/T) as h -> 0. h is a time, and a length, as the speed is 1; a step is never longer, whatever the
    gradient is, and there is no stability limit. The rates are those at the start of a step, so that the chain turns
    late, by h/2 on average: on a quadratic the stationary variance is (T / lambda) (1 + y / sqrt(2 pi)) for small y = h
    sqrt(lambda / T). Noise of the gradient leaves the target as h -> 0, since the rates of v_i and -v_i still differ by
    v_i g_i / T on average; it adds turns, by which the chain forgets its direction sooner.

    At T = 0 all rates are infinite. State: v (C, D), +1 or -1. One gradient a step. The authors may take a new
    minibatch at each turn within a step, and this does not.

    Source: P. Fearnhead, S. Grazzi, C. Nemeth, G. O. Roberts, "Stochastic Gradient Piecewise Deterministic Monte Carlo
    Samplers", arXiv 2406.19051; the process is that of J. Bierkens, P. Fearnhead, G. Roberts, Annals of Statistics
    2019.
    """

    step_unit: ClassVar[int] = 0
    zero_temperature: ClassVar[None] = None

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        up = noise.uniform(theta.shape) < 0.5
        return {"v": up.to(theta.dtype) * 2 - 1}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        v, g = state["v"], potential.grad(theta)
        passed = -noise.uniform(theta.shape).log()  # Exp(1)
        rate = self.rate(v, g, T)
        turns = passed < rate * h
        after = (passed / rate).where(turns, h)
        # A gradient that is not finite is not to be taken for a flat one.
        return theta + v * (2 * after - h) + 0 * g.clamp(-1, 1), {"v": (-v).where(turns, v)}

    def rate(self, v: Tensor, g: Tensor, T: Tensor) -> Tensor:
        """Return the rate (C, D) at which each coordinate turns."""
        return (v * g / T).clamp(min=0)

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if min(T) <= 0:
            raise UsageError("sg-zigzag has no T = 0: its schedule must keep the temperature above 0 at every step")
