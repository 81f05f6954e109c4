"""A mixture of two normal distributions in one dimension. A gradient of 8 chains takes 1.2 ms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tasks.functions import Bounded, Ordered, Positive
from tasks.posteriordb.distributions import normal
from tasks.posteriordb.posterior import Posterior

if TYPE_CHECKING:
    from torch import Tensor

    from tasks.functions import Values


@dataclass(frozen=True, kw_only=True)
class GaussMixture(Posterior):
    """y_i ~ theta N(mu_1, sigma_1^2) + (1 - theta) N(mu_2, sigma_2^2), 1,000 values, mu_1 < mu_2.

    mu_k ~ N(0, 2^2), sigma_k ~ half-N(0, 2^2), theta ~ Beta(5, 5).
    """

    posterior: ClassVar = "low_dim_gauss_mix-low_dim_gauss_mix"
    parameters: ClassVar = (Ordered("mu", 2), Positive("sigma", 2), Bounded("theta", (), 0.0, 1.0))

    def log_density(self, values: Values) -> Tensor:
        import torch

        mu, sigma, theta = values["mu"], values["sigma"], values["theta"]
        shares = torch.stack([theta, 1 - theta], 1).log()
        terms = shares[:, None, :] + normal(self.data["y"][:, None], mu[:, None, :], sigma[:, None, :])
        return (normal(mu, 0, 2) + normal(sigma, 0, 2) + 4 * shares).sum(1) + terms.logsumexp(2).sum(1)
