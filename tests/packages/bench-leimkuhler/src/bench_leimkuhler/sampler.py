from __future__ import annotations

from dataclasses import dataclass

from harness import Sampler, param


@dataclass(frozen=True, kw_only=True)
class LeimkuhlerMatthews(Sampler):
    """theta <- theta - h grad U + sqrt(2 h T) (w xi' + (1 - w) xi), xi the noise of the step before.

    With w = 1/2 the stationary variance on a quadratic potential is T / lambda at every stable step size.
    Source: B. Leimkuhler, C. Matthews, "Rational construction of stochastic numerical methods", 2013.
    """

    share: float = param(0.5, "[0, 1]", "w, share of the new noise", source="Leimkuhler, Matthews 2013")

    def init(self, theta, potential, h, T, noise):
        return {"xi": noise.normal(theta)}

    def step(self, theta, state, potential, h, T, noise):
        xi = noise.normal(theta).expand_as(theta)
        mixed = self.share * xi + (1 - self.share) * state["xi"]
        return theta - h * potential.grad(theta) + (2 * h * T).sqrt() * mixed, {"xi": xi}
