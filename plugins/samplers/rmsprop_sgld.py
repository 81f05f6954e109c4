"""Local RMSProp-SGLD: psgld from a large size (Hitchcock and Hoogland 2025)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param
from plugins.samplers.adam import share

if TYPE_CHECKING:
    from torch import Tensor

PUBLISHED = {"dln-1k": (100_000, 5e-7), "dln-10k": (100_000, 5e-7), "dln-100k": (1_000_000, 1e-7)}
"""n and epsilon of the source, by task."""


@dataclass(frozen=True, kw_only=True)
class RMSpropSGLD(Sampler):
    """psgld whose V starts at 1, corrected for its start; for the posterior near the weights of a trained network.

        V <- decay V + (1 - decay) g^2,   G = 1 / (lam + sqrt(V / (1 - decay^t))),   g = grad U(theta)
        theta <- theta - h G g + sqrt(2 h T G) xi,    xi ~ N(0, I)

    t counts steps from 1, so first steps are short: V / (1 - decay^t) is 99 + g^2 at the first. What the start adds
    falls as decay^t; then this is psgld with the same `decay` and lam, and its law is that of psgld without `gamma`: G
    moves with theta, the drift leaves out its derivative, and with exact gradients it samples, as h -> 0, a density
    proportional to (lam + |g|) exp(-U/T); a standard normal comes out with variance 1.889. G has the g of the same
    minibatch in it; where gradient noise dominates V, G hardly depends on theta and the bias is small. With V held
    still it is sgld in each coordinate with step h G, stable for h G lambda < 2.

    The source has lam = 0.1, V from 1 and a step epsilon in units of the gradient of a mean loss L, where U = n beta L
    + |theta - theta_0|^2 / 2. In units of U these are 0.1 n beta, (n beta)^2 and h = n beta epsilon / 2, the defaults
    on `dln-1k` to `dln-100k`. On four networks of `dln-1k` that step is too long: estimates are 2.8 to 7.7 times too
    high, and at a tenth of it within 9 % (docs/deep-linear-networks.md). V of the source is of the gradient of L alone,
    and ours of all of U, since a potential does not give the two apart; there it changed no estimate by 1 %.

    State: V from `start`, and the count of steps t (C, 1). One gradient a step.

    Source: R. Hitchcock, J. Hoogland, "From Global to Local: A Scalable Benchmark for Local Posterior Sampling", arXiv
    2507.21449, algorithm 3. timaeus-research/devinterp, code of the same group, starts V at 0 and corrects nothing.
    """

    step_unit: ClassVar[int] = 0
    adaptive: ClassVar[tuple[str, ...]] = ("V", "t")

    decay: float = param(
        0.99, "[0, 1)", "smoothing factor of the squared gradient", source="arXiv 2507.21449", tune="[0.8, 0.999]"
    )
    lam: float = param(
        0.1, "(0, inf)", "added to the size, in units of grad U", unit=1, source="arXiv 2507.21449", tune="[1e-8, 1]"
    )
    start: float = param(
        1.0, "[0, inf)", "V before the first step, in units of grad U squared", unit=2, source="arXiv 2507.21449"
    )

    @classmethod
    def settings(cls, task: str) -> Mapping[str, object]:
        return published(task)

    @staticmethod
    def zero_temperature(  # type: ignore[override]
        sampler: RMSpropSGLD, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """theta <- theta - h g / (lam + sqrt(V^)), V^ the mean of past squares, `start` on top of the first ones."""
        left = memory.get("left", 0 * g + 1) * sampler.decay
        past = memory.get("past", 0 * g) * sampler.decay + (1 - sampler.decay) * g.square()
        size = ((past + left * sampler.start) / (1 - left)).sqrt()
        return theta - h * g / (size + sampler.lam), {"left": left, "past": past}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        import torch

        return {"V": theta.new_full(theta.shape, self.start), "t": theta.new_zeros((len(theta), 1), dtype=torch.int64)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g, t = potential.grad(theta), state["t"] + 1
        V = self.decay * state["V"] + (1 - self.decay) * g * g
        G = 1 / (self.lam + (V / share(self.decay, t, g)).sqrt())
        xi = noise.normal(theta)
        return theta - h * G * g + (2 * h * T * G).sqrt() * xi, {"V": V, "t": t}


def published(task: str) -> dict[str, object]:
    """Return the settings of the source in units of U = n beta L + |theta - theta_0|^2 / 2, beta = 1 / log n."""
    if task not in PUBLISHED:
        return {}
    n, epsilon = PUBLISHED[task]
    scale = n / math.log(n)
    return {
        "schedule": "constant",
        "schedule.step_size": scale * epsilon / 2,
        "sampler.lam": 0.1 * scale,
        "sampler.start": scale**2,
    }
