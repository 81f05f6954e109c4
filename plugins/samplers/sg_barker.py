"""The stochastic gradient Barker dynamics (2024): the sign of a random step follows the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param

if TYPE_CHECKING:
    from torch import Tensor

PROBIT = 1.702
"""sigmoid(x) is close to the normal distribution function of x / 1.702."""
NOTHING = 1e-30
"""A push over its root decides on the sign, and 0 stays 0."""


@dataclass(frozen=True, kw_only=True)
class SGBarker(Sampler):
    """Each coordinate moves by a random length z, down its gradient with a higher probability than up.

        theta_i <- theta_i + b_i z_i,    z_i = sqrt(2 h T) (1 + spread sign(g_i) xi_i),    xi_i ~ N(0, 1)
        P(b_i = 1) = 1 / (1 + exp(z_i g_i / T)),    else b_i = -1;    g = grad U(theta)

    Target exp(-U/T) as h -> 0. A step has the length z whatever the gradient is, so a steep one cannot throw the chain,
    and there is no stability limit. With x = h lambda the stationary variance on a quadratic is (T / lambda) (1 + x/2)
    where all lengths are the same (by quadrature, for x up to 2), and 1.52 T / lambda at x = 1 and the default spread.
    sglrw has a drift that is clipped; here it saturates. Gradient noise makes the better sign less likely, because the
    sigmoid bends: the variance V adds h V / (2 T) to the ratio, as in sgld; `sg-barker-corrected` allows for it. The
    sign in z leaves its law as it is, and makes the path on a reflected target the reflected path.

    At T = 0 it would stand still. State: none. One gradient a step, normal and uniform numbers.

    Source: L. Mauri, G. Zanella, "Robust Approximate Sampling via Stochastic Gradient Barker Dynamics", AISTATS 2024,
    arXiv 2405.08999; h T is half the square of their step.
    """

    zero_temperature: ClassVar[None] = None

    spread: float = param(0.1, "[0, inf)", "sd of z over its mean", source="arXiv 2405.08999")

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g = potential.grad(theta)
        z = self.length(g, h, T, noise)
        return moved(theta, z, g * z / T, noise), state

    def length(self, g: Tensor, h: Tensor, T: Tensor, noise: Noise) -> Tensor:
        """Return z (C, D)."""
        xi = noise.normal(g)
        return (2 * h * T).sqrt() * (1 + self.spread * xi.where(g > 0, -xi))

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if min(T) <= 0:
            raise UsageError("sg-barker has no T = 0, where it would not move: its schedule must keep T above 0")


@dataclass(frozen=True, kw_only=True)
class SGBarkerCorrected(SGBarker):
    """sg-barker whose probabilities allow for the noise of the gradient, as far as it is not too large.

        tau_i <- keep tau_i + (1 - keep) s_i,    s_i = sd of g_i as the gradient of a minibatch
        P(b_i = 1) = 1 / (1 + exp(a z_i g_i / T)),    a = 1.702 / sqrt(1.702^2 - y^2),    y = tau_i z_i / T < 1.702
        b_i = -sign(z_i g_i) where y >= 1.702

    If the sigmoid were the normal distribution function of x / 1.702, the mean of the probability over normal noise of
    the variance tau^2 would be that of the exact gradient. It is flatter at 0, so that at small steps 0.31 of the
    excess of sg-barker is left: a ratio of about 1 + x/2 + 0.155 h V / T. At y >= 1.702 the noise is more than the
    probability can allow for, and the sign is taken for what it is.

    s = N sd(scores) sqrt(1/n - 1/N), for batches drawn without replacement: one that has all the data has no noise. tau
    starts at the s of one batch, where the authors start at 0 and divide by 1 - keep^t. State: tau (C, D). A step asks
    for the scores and for a gradient: two gradients a step.

    Source: L. Mauri, G. Zanella, AISTATS 2024, arXiv 2405.08999: the corrected dynamics.
    """

    gradients_per_step: ClassVar[int] = 2
    needs: ClassVar[frozenset[str]] = frozenset({"scores", "terms"})
    adaptive: ClassVar[tuple[str, ...]] = ("tau",)

    keep: float = param(0.9, "[0, 1)", "what tau keeps of itself in a step", source="arXiv 2405.08999")

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"tau": self.gradient_sd(potential, theta)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        tau = self.keep * state["tau"] + (1 - self.keep) * self.gradient_sd(potential, theta)
        g = potential.grad(theta)
        z = self.length(g, h, T, noise)
        left = (1 - (tau * z / T / PROBIT).square()).clamp(min=NOTHING)
        return moved(theta, z, g * z / T / left.sqrt(), noise), {"tau": tau}

    def gradient_sd(self, potential: Potential, theta: Tensor) -> Tensor:
        """Return s (C, D)."""
        scores = potential.scores(theta)
        n, N = scores.shape[1], potential.terms
        centred = scores - scores.mean(1, keepdim=True)
        return N * (centred.square().sum(1) / max(n - 1, 1) * max(1 / n - 1 / N, 0.0)).sqrt()


def moved(theta: Tensor, z: Tensor, push: Tensor, noise: Noise) -> Tensor:
    """Return theta + z with probability 1 / (1 + exp(push)), else theta - z; NaN where the push is."""
    up = noise.uniform(push.shape) * (1 + push.exp()) < 1
    return theta + z.where(up, -z) + 0 * push.clamp(-1, 1)
