"""The five samplers of posteriors 0.1.3; `friction` is the share of the momentum that a step takes.

Chains start at rest: the library would draw momenta from N(0, 1), whatever the temperature and `sigma` are.
"""

import math
from dataclasses import dataclass

import torch
from posteriors import sgmcmc

from harness import Info, hook, param
from plugins.adapters.posteriors import Posteriors


def explicit_momentum(sampler, theta, memory, g, h):
    """What sghmc is at T = 0: the position moves by the old momentum."""
    m = memory.get("m", torch.zeros_like(theta))
    memory["m"] = (1 - sampler.friction) * m - h.sqrt() * g
    return theta + h.sqrt() * m, memory


def half_momentum(sampler, theta, memory, g, h):
    """What baoa is at T = 0: the position moves by the mean of the momentum before and after the friction."""
    m = memory.get("m", torch.zeros_like(theta)) - h.sqrt() * g
    memory["m"] = math.exp(-sampler.friction) * m
    return theta + h.sqrt() * (m + memory["m"]) / 2, memory


class Sgld(Posteriors):
    """theta <- theta - h g + sqrt(2 h T) xi, as posteriors does it (M. Welling, Y. W. Teh, 2011)."""

    elementwise = True

    def transform(self, log_posterior, h, T):
        return sgmcmc.sgld.build(log_posterior, lr=h, temperature=T)


class Sglrw(Posteriors):
    """Each coordinate jumps by + or - sqrt(2 h T), as posteriors does it (arXiv:2602.15925)."""

    elementwise = True
    zero_temperature = None

    def transform(self, log_posterior, h, T):
        return sgmcmc.sglrw.build(log_posterior, lr=h, temperature=T)


@dataclass(frozen=True, kw_only=True)
class Sghmc(Posteriors):
    """SGHMC by the explicit Euler method, as posteriors does it (T. Chen et al., 2014)."""

    elementwise = True
    zero_temperature = explicit_momentum
    friction: float = param(0.1, "(0, 1]", "share of the momentum that a step takes")

    def transform(self, log_posterior, h, T):
        return sgmcmc.sghmc.build(
            log_posterior, lr=h.sqrt(), alpha=self.friction / h.sqrt(), temperature=T, momenta=0.0
        )


@dataclass(frozen=True, kw_only=True)
class Baoa(Posteriors):
    """The splitting BAOA, as posteriors does it (B. Leimkuhler, C. Matthews, 2015)."""

    elementwise = True
    zero_temperature = half_momentum
    friction: float = param(0.1, "(0, inf)", "a step multiplies the momentum by exp(-friction)")

    def transform(self, log_posterior, h, T):
        return sgmcmc.baoa.build(log_posterior, lr=h.sqrt(), alpha=self.friction / h.sqrt(), temperature=T, momenta=0.0)


@dataclass(frozen=True, kw_only=True)
class Sgnht(Posteriors):
    """SGHMC with a thermostat, as posteriors does it (N. Ding et al., 2014)."""

    zero_temperature = None
    friction: float = param(0.1, "(0, 1]", "of the noise: sqrt(2 friction T) a step of the momentum")

    def transform(self, log_posterior, h, T):
        return sgmcmc.sgnht.build(
            log_posterior, lr=h.sqrt(), alpha=self.friction / h.sqrt(), temperature=T, momenta=0.0
        )


@hook
def bench_samplers():
    names = {
        "their-sgld": "Sgld",
        "their-sglrw": "Sglrw",
        "their-sghmc": "Sghmc",
        "their-baoa": "Baoa",
        "their-sgnht": "Sgnht",
    }
    return [Info(name, f"posteriors_samplers:{of}", f"{of} of posteriors") for name, of in names.items()]
