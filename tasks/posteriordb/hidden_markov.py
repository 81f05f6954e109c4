"""Hidden Markov models with two states: transitions from state k have the probabilities theta_k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tasks.functions import Ordered, PositiveOrdered, Simplex
from tasks.posteriordb.distributions import normal
from tasks.posteriordb.posterior import Posterior

if TYPE_CHECKING:
    from torch import Tensor

    from tasks.functions import Values


def log_likelihood(emissions: Tensor, transitions: Tensor) -> Tensor:
    """Return the log density (n,) of a sequence whose states are unknown; the first state has no prior.

        log sum_z exp(e_1[z_1] + sum_t e_t[z_t] + log theta[z_{t-1}, z_t])

    It is the sum of all elements of a product of matrices, one for each time. They are multiplied in pairs, and in
    pairs of pairs, so log2 T rounds of a few operations replace T of a loop; each product is divided by its largest
    element.

    emissions    log densities of the observations, e (n, T, K)
    transitions  theta (n, K, K), from row to column
    """
    import torch

    top = emissions.detach().amax(2)
    weights = (emissions - top[:, :, None]).exp()
    total = top.sum(1)
    product = transitions[:, None] * weights[:, 1:, None, :]
    while (count := product.shape[1]) > 1:
        pairs = product[:, : count - count % 2].unflatten(1, (count // 2, 2))
        left, right = pairs[:, :, 0], pairs[:, :, 1]
        merged = (left[..., None] * right[..., None, :, :]).sum(3)
        largest = merged.detach().amax((2, 3))
        total = total + largest.log().sum(1)
        product = torch.cat([merged / largest[:, :, None, None], product[:, count - count % 2 :]], 1)
    return total + (weights[:, 0, :, None] * product[:, 0]).sum((1, 2)).log()


@dataclass(frozen=True, kw_only=True)
class HiddenMarkov(Posterior):
    """A subclass defines the density of observations in each state, and priors."""

    def emissions(self, values: Values) -> Tensor:
        """Return the log density of each observation in each state, (n, T, 2)."""
        raise NotImplementedError

    def priors(self, values: Values) -> Tensor:
        """Return the logarithm of the prior (n,)."""
        raise NotImplementedError

    def log_density(self, values: Values) -> Tensor:
        import torch

        transitions = torch.stack([values["theta1"], values["theta2"]], 1)
        return self.priors(values) + log_likelihood(self.emissions(values), transitions)


@dataclass(frozen=True, kw_only=True)
class HmmExample(HiddenMarkov):
    """y_t ~ N(mu_z, 1) in state z, 100 values; mu_1 ~ N(3, 1) and mu_2 ~ N(10, 1), 0 < mu_1 < mu_2; theta_k flat."""

    posterior: ClassVar = "hmm_example-hmm_example"
    parameters: ClassVar = (Simplex("theta1", 2), Simplex("theta2", 2), PositiveOrdered("mu", 2))

    def emissions(self, values: Values) -> Tensor:
        return normal(self.data["y"][:, None], values["mu"][:, None, :])

    def priors(self, values: Values) -> Tensor:
        return normal(values["mu"][:, 0], 3) + normal(values["mu"][:, 1], 10)


@dataclass(frozen=True, kw_only=True)
class Drive(HiddenMarkov):
    """Player tracking in basketball: 1/speed u_t and distance to the hoop v_t, at 416 times; state 2 drives.

    theta_k ~ Dirichlet(alpha_k); phi_1, lambda_1 ~ N(0, 1), phi_2, lambda_2 ~ N(3, 1).
    """

    def priors(self, values: Values) -> Tensor:
        alpha = self.data["alpha"]
        dirichlets = [((alpha[k] - 1) * values[name].log()).sum(1) for k, name in enumerate(("theta1", "theta2"))]
        rates = [normal(values[name][:, 0]) + normal(values[name][:, 1], 3) for name in ("phi", "lambda")]
        return sum(rates, sum(dirichlets))  # type: ignore[return-value]


@dataclass(frozen=True, kw_only=True)
class Drive0(Drive):
    """u_t and v_t are exponential with the rates phi_z and lambda_z, 0 < phi_1 < phi_2, 0 < lambda_1 < lambda_2."""

    posterior: ClassVar = "bball_drive_event_0-hmm_drive_0"
    parameters: ClassVar = (
        Simplex("theta1", 2),
        Simplex("theta2", 2),
        PositiveOrdered("phi", 2),
        PositiveOrdered("lambda", 2),
    )

    def emissions(self, values: Values) -> Tensor:
        rates = {"u": values["phi"][:, None, :], "v": values["lambda"][:, None, :]}
        u, v = (rate.log() - rate * self.data[name][:, None] for name, rate in rates.items())
        return u + v


@dataclass(frozen=True, kw_only=True)
class Drive1(Drive):
    """log u_t ~ N(phi_z, 0.1^2) and log v_t ~ N(lambda_z, 0.1^2), phi_1 < phi_2, lambda_1 < lambda_2."""

    posterior: ClassVar = "bball_drive_event_1-hmm_drive_1"
    parameters: ClassVar = (Simplex("theta1", 2), Simplex("theta2", 2), Ordered("phi", 2), Ordered("lambda", 2))

    def emissions(self, values: Values) -> Tensor:
        u = (self.data["u"][:, None] - values["phi"][:, None, :]) / self.data["tau"]
        v = (self.data["v"][:, None] - values["lambda"][:, None, :]) / self.data["rho"]
        return -(u * u + v * v) / 2
