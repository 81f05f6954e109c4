"""The Laplace approximation with the diagonal of the Hessian, found by random signs along SGD, a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class LaplaceSigns(Sampler):
    """A Gaussian at the end of SGD whose precision is the diagonal of the Hessian over T. Not MCMC.

        w     <- w - h grad U(w)
        c      = z (grad U(w + delta z) - grad U(w)) / delta,    z_i = -1 or 1 with equal odds
        H     <- the mean of c, each step decay times as heavy as the next
        theta  = w + sqrt(T / max(H, least)) xi

    The mean of c over z is the diagonal of the Hessian of U, prior included, and both gradients are on one minibatch.
    On a quadratic potential with a diagonal Hessian c is exact, and the variance of theta is T / lambda about w, which
    noisy gradients move as they move SGD; with another Hessian it is T / H_ii, which is too narrow. Stable for
    x = h lambda < 2. A warm start (`run.warm_start`) brings w near a mode.

    A network's Hessian has negative entries where w is no minimum: set `least` to the precision of the prior, the least
    that the Gauss-Newton approximation has. State: theta - w, the sum behind H, and a count of steps (C, 1). Two
    gradients a step.

    Source: D. J. C. MacKay, "A Practical Bayesian Framework for Backpropagation Networks", Neural Computation 1992;
    the diagonal by random signs as in C. Bekas, E. Kokiopoulou, Y. Saad, "An estimator for the diagonal of a matrix",
    2007.
    """

    gradients_per_step: ClassVar[int] = 2
    exempt: ClassVar[Mapping[str, str]] = {"potential": "the gradients are at w and beside it, theta is a draw"}

    decay: float = param(0.99, "[0, 1)", "weight of the mean of the steps before", source="ours")
    delta: float = param(1e-3, "(0, inf)", "distance over which gradients are compared", source="ours")
    least: float = param(1e-6, "(0, inf)", "least entry of the Hessian", unit=1, source="ours", tune="[1e-6, 1e3]")

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        import torch

        steps = theta.new_zeros((len(theta), 1), dtype=torch.int64)
        zero = theta.new_zeros(theta.shape)
        return {"offset": zero, "H": zero.clone(), "steps": steps}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        w, steps = theta - state["offset"], state["steps"] + 1
        random = self.random(theta, potential)
        sign = random * (2 * (noise.uniform(theta.shape) < 0.5).to(theta.dtype) - 1)
        g = potential.grad(w)
        curvature = sign * (potential.grad(w + self.delta * sign) - g) / self.delta
        H = self.decay * state["H"] + (1 - self.decay) * curvature
        seen = 1 - self.decay ** steps.to(theta.dtype)
        w = w - h * g
        offset = random * (T / (H / seen).clamp(min=self.least)).sqrt() * noise.normal(theta)
        return w + offset, {"offset": offset.expand_as(theta), "H": H, "steps": steps}

    def random(self, theta: Tensor, potential: Potential) -> Tensor | float:
        """1 for coordinates of theta that are drawn, 0 for those that are w."""
        return 1.0

    def limit_bias(self) -> None:
        return None
