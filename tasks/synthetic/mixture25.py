"""The 25-mode mixture of the cyclical SG-MCMC paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from harness.tasks import Protocol
from tasks.synthetic.mixture import MixtureTask, mixture_metrics

_GRID = (-4.0, -2.0, 0.0, 2.0, 4.0)
_BUDGETS = {"smoke": 3_000, "quick": 15_000, "paper": 50_000}


@dataclass(frozen=True, kw_only=True)
class Mixture25(MixtureTask):
    """25 equal modes N(mu, 0.03 I) with mu in {-4, -2, 0, 2, 4}^2; chains start uniformly on [-10, 10]^2.

    The modes are 2 apart and their sd is 0.17, so a chain leaves one only by a step past the stability limit 0.06, or
    never. Beyond |theta| = 12 such a step throws it further out each time. The paper does not say whether gradients
    are noisy; its code adds N(0, I), and so does the default here.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, 5.1 and
    appendix; starting points and gradient noise from the authors' code.
    """

    centres: ClassVar = tuple((x, y) for x in _GRID for y in _GRID)
    variance: ClassVar = 0.03
    box: ClassVar = 10.0
    metrics: ClassVar = mixture_metrics("modes_covered", within=1.0, share=1 - math.exp(-(0.25**2) / 0.06))
    protocols: ClassVar = (
        Protocol("csgmcmc", "the paper's: 50,000 steps, all kept", _BUDGETS, seeds=tuple(range(10))),
        Protocol("csgmcmc-code", "the authors' code's: same lengths, other settings", _BUDGETS, seeds=tuple(range(10))),
    )  # fmt: skip
