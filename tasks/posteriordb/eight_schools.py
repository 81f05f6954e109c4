"""Eight schools: effects of coaching on test scores, y_j ~ N(theta_j, sigma_j^2), theta_j ~ N(mu, tau^2).

mu ~ N(0, 5^2), tau ~ half-Cauchy(5). A gradient of 8 chains takes 0.44 ms.

Source: D. B. Rubin, "Estimation in parallel randomized experiments", Journal of Educational Statistics 6, 1981; A.
Gelman et al., "Bayesian Data Analysis", 3rd edition, 2013, section 5.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tasks.functions import Positive, Real
from tasks.posteriordb.distributions import cauchy, normal
from tasks.posteriordb.posterior import Posterior

if TYPE_CHECKING:
    from torch import Tensor

    from tasks.functions import Values


@dataclass(frozen=True, kw_only=True)
class EightSchoolsCentered(Posterior):
    """theta itself is a parameter: with tau near 0 it is a funnel, and the density has no mode."""

    posterior: ClassVar = "eight_schools-eight_schools_centered"
    parameters: ClassVar = (Real("theta", 8), Real("mu"), Positive("tau"))

    def log_density(self, values: Values) -> Tensor:
        theta, mu, tau = values["theta"], values["mu"], values["tau"]
        return self.hyperpriors(values, theta) + normal(theta, mu[:, None], tau[:, None]).sum(1)

    def hyperpriors(self, values: Values, theta: Tensor) -> Tensor:
        """Return the log likelihood at theta (n, 8), and the priors of mu and tau."""
        likelihood = normal(self.data["y"], theta, self.data["sigma"]).sum(1)
        return likelihood + normal(values["mu"], 0, 5) + cauchy(values["tau"], 5)


@dataclass(frozen=True, kw_only=True)
class EightSchoolsNoncentered(EightSchoolsCentered):
    """theta = mu + tau theta_trans with theta_trans ~ N(0, I), which has no funnel."""

    posterior: ClassVar = "eight_schools-eight_schools_noncentered"
    parameters: ClassVar = (Real("theta_trans", 8), Real("mu"), Positive("tau"))

    def log_density(self, values: Values) -> Tensor:
        return self.hyperpriors(values, self.effects(values)) + normal(values["theta_trans"]).sum(1)

    def effects(self, values: Values) -> Tensor:
        """Return theta (n, 8)."""
        return values["mu"][:, None] + values["tau"][:, None] * values["theta_trans"]

    def functions(self, theta: Tensor) -> Mapping[str, Tensor]:  # type: ignore[override]
        """Return theta, mu and tau."""
        values = self.constrained_values(theta)
        return {"theta": self.effects(values), "mu": values["mu"][:, None], "tau": values["tau"][:, None]}

    def judged(self, theta: Tensor) -> Tensor:
        """Return theta, mu and tau (n, 10)."""
        x = self.in_a_row(theta)
        effects, mu, tau = self.columns(x)
        effects.mul_(tau).add_(mu)
        return x

    def reference_values(self) -> dict[str, Tensor]:
        """Return theta_trans, mu and tau of the reference draws, which have theta."""
        values = EightSchoolsCentered().reference_values()
        theta_trans = (values["theta"] - values["mu"][:, None]) / values["tau"][:, None]
        return {"theta_trans": theta_trans, "mu": values["mu"], "tau": values["tau"]}
