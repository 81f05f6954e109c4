"""Time series: an autoregression of order 5, ARMA(1, 1) and GARCH(1, 1), 200 values each.

A gradient of 8 chains takes 0.5 ms (AR), 0.9 ms (ARMA) or 1.1 ms (GARCH). Runs of ARMA and GARCH are plain, because
the gradient of a slice is not compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tasks.functions import Bounded, Positive, Real
from tasks.posteriordb.distributions import cauchy, normal
from tasks.posteriordb.posterior import Posterior

if TYPE_CHECKING:
    from torch import Tensor

    from tasks.functions import Values


def recursion(inputs: Tensor, factor: Tensor) -> Tensor:
    """Return x (n, T) of x_t = inputs_t + factor x_{t-1}, x_0 = 0, for inputs (n, T) and factors (n,).

    After k rounds x_t has the terms of the last 2^k inputs, so log2 T rounds of a few operations replace T of a loop.
    """
    import torch

    x, power, shift = inputs, factor[:, None], 1
    while shift < x.shape[1]:
        earlier = torch.cat([torch.zeros_like(x[:, :shift]), x[:, :-shift]], 1)
        x, power, shift = x + power * earlier, power * power, 2 * shift
    return x


@dataclass(frozen=True, kw_only=True)
class AutoRegression(Posterior):
    """y_t ~ N(alpha + sum_k beta_k y_{t-k}, sigma^2), t > K = 5.

    alpha, beta_k ~ N(0, 10^2), sigma ~ half-Cauchy(2.5).
    """

    posterior: ClassVar = "arK-arK"
    parameters: ClassVar = (Real("alpha"), Real("beta", 5), Positive("sigma"))

    def log_density(self, values: Values) -> Tensor:
        import torch

        alpha, beta, sigma = values["alpha"], values["beta"], values["sigma"]
        y = self.data["y"]
        lagged = torch.stack([y[4 - k : -1 - k] for k in range(5)], 1)
        mean = alpha[:, None] + (beta[:, None, :] * lagged).sum(2)
        priors = normal(alpha, 0, 10) + normal(beta, 0, 10).sum(1) + cauchy(sigma, 2.5)
        return priors + normal(y[5:], mean, sigma[:, None]).sum(1)


@dataclass(frozen=True, kw_only=True)
class Arma(Posterior):
    """y_t ~ N(mu + phi y_{t-1} + theta e_{t-1}, sigma^2) with e_t = y_t minus this mean, e_0 = 0 and y_0 = mu.

    mu ~ N(0, 10^2), phi, theta ~ N(0, 2^2), sigma ~ half-Cauchy(2.5). A start without the
    reference is on [-1, 1]^4, as errors grow like (-theta)^t.
    """

    posterior: ClassVar = "arma-arma11"
    box: ClassVar = 1.0
    parameters: ClassVar = (Real("mu"), Real("phi"), Real("theta"), Positive("sigma"))

    def log_density(self, values: Values) -> Tensor:
        import torch

        mu, phi, theta, sigma = (values[name] for name in ("mu", "phi", "theta", "sigma"))
        y = self.data["y"]
        previous = torch.cat([mu[:, None], y[None, :-1].expand(len(mu), -1)], 1)
        errors = recursion(y - mu[:, None] - phi[:, None] * previous, -theta)
        priors = normal(mu, 0, 10) + normal(phi, 0, 2) + normal(theta, 0, 2) + cauchy(sigma, 2.5)
        return priors + normal(errors, 0, sigma[:, None]).sum(1)


@dataclass(frozen=True, kw_only=True)
class Garch(Posterior):
    """y_t ~ N(mu, v_t), v_t = alpha0 + alpha1 (y_{t-1} - mu)^2 + beta1 v_{t-1}, v_1 = sigma1^2; flat priors."""

    posterior: ClassVar = "garch-garch11"
    parameters: ClassVar = (
        Real("mu"),
        Positive("alpha0"),
        Bounded("alpha1", (), 0.0, 1.0),
        Bounded("beta1", (), 0.0, lambda values: 1 - values["alpha1"]),
    )

    def log_density(self, values: Values) -> Tensor:
        import torch

        mu, alpha0, alpha1 = (values[name][:, None] for name in ("mu", "alpha0", "alpha1"))
        squares = (self.data["y"] - mu).square()
        first = torch.full_like(mu, self.data["sigma1"] ** 2)
        variance = recursion(torch.cat([first, alpha0 + alpha1 * squares[:, :-1]], 1), values["beta1"])
        return -(squares / variance + variance.log()).sum(1) / 2
