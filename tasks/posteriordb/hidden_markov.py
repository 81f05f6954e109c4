"""Hidden Markov models with two states: transitions from state k have the probabilities theta_k.

A gradient of 8 chains takes 2.3 ms for the 100 values of `HmmExample`, and 4.4 ms for the 416 times of the others.
"""

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
    element. Identities fill the times up to a power of two.

    emissions    log densities of the observations, e (n, T, K)
    transitions  theta (n, K, K), from row to column
    """
    import torch

    (_, times, states), kind = emissions.shape, {"dtype": emissions.dtype, "device": emissions.device}
    top = emissions.detach().amax(2)
    total, weights = top.sum(1), (emissions - top[:, :, None]).exp()
    state, time = torch.arange(states, device=emissions.device), torch.arange(times, device=emissions.device)
    before, first = (state == 0).to(emissions.dtype)[:, None], (time == 0)[:, None, None]
    product = torch.where(first, before, transitions[:, None]) * weights[:, :, None, :]
    filling = torch.eye(states, **kind).expand(len(product), (1 << (times - 1).bit_length()) - times, -1, -1)
    product = torch.cat([product, filling], 1)
    while (count := product.shape[1]) > 1:
        left, right = product.unflatten(1, (count // 2, 2)).unbind(2)
        merged = (left[..., None] * right[..., None, :, :]).sum(3)
        largest = merged.detach().amax((2, 3))
        total, product = total + largest.log().sum(1), merged / largest[:, :, None, None]
    return total + product.sum((1, 2, 3)).log()


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
        first, second = values["mu"].unbind(1)
        return normal(first, 3) + normal(second, 10)


@dataclass(frozen=True, kw_only=True)
class Drive(HiddenMarkov):
    """Player tracking in basketball: 1/speed u_t and distance to the hoop v_t, at 416 times; state 2 drives.

    theta_k ~ Dirichlet(alpha_k); phi_1, lambda_1 ~ N(0, 1), phi_2, lambda_2 ~ N(3, 1).
    """

    def priors(self, values: Values) -> Tensor:
        alpha = self.data["alpha"]
        dirichlets = [((alpha[k] - 1) * values[name].log()).sum(1) for k, name in enumerate(("theta1", "theta2"))]
        (phi_1, phi_2), (lambda_1, lambda_2) = values["phi"].unbind(1), values["lambda"].unbind(1)
        slow, fast = normal(phi_1) + normal(lambda_1), normal(phi_2, 3) + normal(lambda_2, 3)
        return slow + fast + sum(dirichlets)  # type: ignore[return-value]


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
