"""Step sizes and temperatures in the conventions of papers and libraries.

Here h multiplies the gradient of the full-data sum U and the target is exp(-U/T): a step drifts by -h grad U and adds
noise of variance 2 h T. N is the number of likelihood terms in U, 1 for a plain density. Each function returns what
to write elsewhere to get the same drift and the same noise.

Source: the conversions are algebra; who uses which convention was read in the papers and in the libraries' code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Equivalent:
    """The same step in another convention: who has it, its settings by name, and how it writes the step."""

    convention: str
    settings: dict[str, float]
    step: str


def welling_teh(h: float, T: float) -> Equivalent:
    """epsilon = 2 h T, on U/T: Welling and Teh 2011, Li et al. 2016 (pSGLD), TensorFlow Probability."""
    step = "theta - epsilon/2 grad U/T + N(0, epsilon)"
    return Equivalent("Welling-Teh, pSGLD, TensorFlow Probability", {"epsilon": 2 * h * T}, step)


def mean_loss(h: float, T: float, N: int) -> Equivalent:
    """lr = h N on the mean loss U/N: csgmcmc, bnn_priors; T is the same."""
    return Equivalent("mean loss (csgmcmc, bnn_priors)", {"lr": h * N, "T": T}, "theta - lr grad(U/N) + N(0, 2 lr T/N)")


def posteriors(h: float, T: float, N: int) -> Equivalent:
    """lr = h N and temperature = T/N: posteriors divides the log posterior by N, so that 1/N is the posterior."""
    settings = {"lr": h * N, "temperature": T / N}
    return Equivalent("posteriors", settings, "theta - lr grad(U/N) + N(0, 2 lr temperature)")


def devinterp(h: float, T: float, N: int) -> Equivalent:
    """lr = 2 h T and nbeta = N/T: devinterp, localisation left out. T must be positive."""
    settings = {"lr": 2 * h * T, "nbeta": N / T}
    return Equivalent("devinterp", settings, "theta - lr/2 nbeta grad(U/N) + N(0, lr)")


def physical(h: float, alpha: float, mass: float = 1.0) -> Equivalent:
    """epsilon = sqrt(h M) and C = alpha M / epsilon: SGHMC with momentum r = M v / epsilon, mass M and friction C."""
    epsilon = math.sqrt(h * mass)
    settings = {"epsilon": epsilon, "C": alpha * mass / epsilon, "M": mass}
    return Equivalent(
        "physical SGHMC (Chen et al. 2014, eq. 13)",
        settings,
        "r - epsilon grad U - epsilon C r/M + N(0, 2 C epsilon T); theta + epsilon r/M",
    )


def momentum(h: float, alpha: float, N: int) -> Equivalent:
    """momentum = 1 - alpha and lr = h N: SGD with momentum on the mean loss, in the velocity form."""
    return Equivalent(
        "SGD with momentum, on the mean loss",
        {"lr": h * N, "momentum": 1 - alpha},
        "v = momentum v - lr grad(U/N); theta + v",
    )


def equivalents(h: float, T: float, N: int, alpha: float | None = None) -> list[Equivalent]:
    """All of them for a step size; those that divide by T where T > 0, with friction where alpha is given."""
    found = [mean_loss(h, T, N), posteriors(h, T, N)]
    if T > 0:
        found = [welling_teh(h, T), *found, devinterp(h, T, N)]
    if alpha is not None and h > 0:
        found += [physical(h, alpha), momentum(h, alpha, N)]
    return found
