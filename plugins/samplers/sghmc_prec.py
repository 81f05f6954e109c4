"""SGHMC under the preconditioner of RMSprop, as the samplers that HMC was compared with (Izmailov et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PreconditionedSGHMC(Sampler):
    """Underdamped Langevin dynamics in which each coordinate has a mass M that follows its gradient; mu = 1 - alpha.

        E <- decay E + (1 - decay) g^2,   M = lam + sqrt(E),   g = grad U(theta)
        r <- mu r - h g + sqrt(2 (1 - mu) h T M) xi,           xi ~ N(0, I)
        theta <- theta + r / M

    With M held still it is sghmc with step h / M in each coordinate: with x = h lambda / M the stationary variance is
    (T / lambda) / (1 - x / (2 (1 + mu))), stable for x < 2 (1 + mu). M changes with theta and its derivative is left
    out, as in psgld: with exact gradients it samples, as h -> 0, a density proportional to M^(1 - c) exp(-U/T),
    M = lam + |g|, c = 2 mu W / (1 + mu), W = (1 - decay) / (1 - mu decay). c is there because r still carries the noise
    by which M has changed since. At the defaults c = 0.16 and a standard normal comes out with variance 1.836. E starts
    at 0 and has no bias correction: at the first step M is sqrt(1 - decay) |g|. M is of the full-data gradient; from
    mean gradients it is N times smaller.

    Under the schedule `cyclical` it is `csghmc-prec`, SGHMC-CLR-Prec of the source with the noise always on. State: r
    and E, both started at 0; r carries over when h changes (theirs is r / sqrt(h)). One gradient a step.

    Source: P. Izmailov, S. Vikram, M. D. Hoffman, A. G. Wilson, "What Are Bayesian Neural Network Posteriors Really
    Like?", ICML 2021, code (h = lr, which is on the sum scale there).
    """

    step_unit: ClassVar[int] = 0
    adaptive: ClassVar[tuple[str, ...]] = ("E",)

    friction: float = param(
        0.05, "(0, 1]", "alpha, one minus the momentum mu", source="authors' code", tune="[0.01, 1]"
    )
    decay: float = param(
        0.99, "[0, 1)", "smoothing factor of the squared gradient", source="authors' code", tune="[0.8, 0.999]"
    )
    lam: float = param(
        1e-7, "(0, inf)", "added to the size, in units of grad U", unit=1, source="authors' code", tune="[1e-8, 1]"
    )

    @staticmethod
    def zero_temperature(  # type: ignore[override]
        sampler: PreconditionedSGHMC, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """RMSprop with a heavy ball."""
        E = sampler.decay * memory.get("E", 0 * g) + (1 - sampler.decay) * g * g
        r = (1 - sampler.friction) * memory.get("r", 0 * g) - h * g
        return theta + r / (sampler.lam + E.sqrt()), {"E": E, "r": r}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"r": 0 * theta, "E": 0 * theta}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        mu, g = 1 - self.friction, potential.grad(theta)
        E = self.decay * state["E"] + (1 - self.decay) * g * g
        M = self.lam + E.sqrt()
        r = mu * state["r"] - h * g + (2 * (1 - mu) * h * T * M).sqrt() * noise.normal(theta)
        return theta + r / M, {"r": r, "E": E}
