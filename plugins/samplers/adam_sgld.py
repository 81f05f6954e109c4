"""Local Adam-SGLD: steps along the running mean of the gradient, with Langevin noise (Hitchcock and Hoogland 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param
from plugins.samplers.adam import share
from plugins.samplers.rmsprop_sgld import published

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class AdamSGLD(Sampler):
    """rmsprop-sgld whose drift has the running mean of the gradient in place of the gradient.

        m <- m + (1 - beta1) / (1 - beta1^t) (g - m),    g = grad U(theta)
        V <- beta2 V + (1 - beta2) g^2,   G = 1 / (lam + sqrt(V / (1 - beta2^t)))
        theta <- theta - h G m + sqrt(2 h T G) xi,       xi ~ N(0, I)

    t counts steps from 1, V starts at 1, and m is the mean of Adam, corrected for its start at 0: at T = 0 this is Adam
    but for the start of V. No setting of another sampler gives it: asgld and adamax-sgld add a m / sqrt(V) to g under
    noise that is not preconditioned, pmsgld adds a m to g, and sghmc-prec has its noise in the momentum.

    The mean follows the gradient late, and the noise does not go through it. With V held still, x = h G lambda and y =
    (1 + beta1) / (1 - beta1), the stationary variance is (T / lambda) (1 + (x y / 2) / (1 - x / 2y)), stable for x <
    2 y. So a small step has y = 19 times the error that it has in rmsprop-sgld. As h -> 0 the mean does no harm, and V
    that moves with theta does: with exact gradients it samples a density proportional to (lam + |g|) exp(-U/T); a
    standard normal comes out with variance 1.889.

    Units and the settings of the source are as in rmsprop-sgld. In the source m and V are of the gradient of the loss,
    and that of the prior is added to m; here m has both.

    State: m, which the first step sets to g; V from `start`; and the count of steps t (C, 1). One gradient a step.

    Source: R. Hitchcock, J. Hoogland, "From Global to Local: A Scalable Benchmark for Local Posterior Sampling", arXiv
    2507.21449, algorithm 2; beta1 as in D. P. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.
    """

    step_unit: ClassVar[int] = 0
    adaptive: ClassVar[tuple[str, ...]] = ("V", "t")

    beta1: float = param(0.9, "[0, 1)", "smoothing factor of the mean", source="Kingma, Ba 2015", tune="[0.5, 0.99]")
    beta2: float = param(
        0.99, "[0, 1)", "smoothing factor of the square", source="arXiv 2507.21449", tune="[0.8, 0.999]"
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
        sampler: AdamSGLD, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """theta <- theta - h m^ / (lam + sqrt(V^)), both divided by the sum of their weights; `start` is on top."""
        weights = (memory.get("weight", 0 * g), memory.get("weights", 0 * g))
        means = (memory.get("m", 0 * g), memory.get("V", 0 * g))
        pairs = ((sampler.beta1, g), (sampler.beta2, g.square()))
        (w1, w2) = (beta * w + 1 - beta for w, (beta, _) in zip(weights, pairs, strict=True))
        (m, V) = (beta * mean + (1 - beta) * new for mean, (beta, new) in zip(means, pairs, strict=True))
        size = ((V + (1 - w2) * sampler.start) / w2).sqrt()
        return theta - h * m / w1 / (size + sampler.lam), {"weight": w1, "weights": w2, "m": m, "V": V}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        import torch

        return {
            "m": theta.new_zeros(theta.shape),
            "V": theta.new_full(theta.shape, self.start),
            "t": theta.new_zeros((len(theta), 1), dtype=torch.int64),
        }

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g, t = potential.grad(theta), state["t"] + 1
        m = state["m"] + (1 - self.beta1) / share(self.beta1, t, g) * (g - state["m"])
        V = self.beta2 * state["V"] + (1 - self.beta2) * g * g
        G = 1 / (self.lam + (V / share(self.beta2, t, g)).sqrt())
        xi = noise.normal(theta)
        theta = theta - h * G * m + (2 * h * T * G).sqrt() * xi
        return theta, {"m": m, "V": V, "t": t}
