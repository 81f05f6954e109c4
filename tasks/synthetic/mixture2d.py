"""The 4-mode mixture of the slides on cyclical SG-MCMC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.tasks import Protocol
from tasks.synthetic.mixture import MixtureTask, mixture_metrics


@dataclass(frozen=True, kw_only=True)
class Mixture2D(MixtureTask):
    """4 equal modes N(mu, I/4) with mu in {-1.5, 1.5}^2: 6 sd apart, between mixture5 and mixture25 in difficulty.

    The slides compare sgld and sghmc on "multi-modal two dimensional mixtures of gaussians", with and without the
    cyclical schedule, by pictures of 15,000 iterations; they print no number of the target. Centres, variance and the
    N(0, I) noise of the gradients are ours. Chains start uniformly on [-4, 4]^2. Neighbouring modes overlap so little
    that exact draws have a within-mode covariance ratio of 0.99541, by quadrature.
    """

    centres: ClassVar = ((-1.5, -1.5), (-1.5, 1.5), (1.5, -1.5), (1.5, 1.5))
    variance: ClassVar = 0.25
    box: ClassVar = 4.0
    metrics: ClassVar = mixture_metrics("mode_mass_tv", within=0.99541, share=0.1175031)
    protocols: ClassVar = (
        Protocol(
            "csgmcmc-slides",
            "slides on cyclical SG-MCMC: 15,000 iterations; the target is ours",
            {"smoke": 1_500, "quick": 5_000, "paper": 15_000},
        ),
        Protocol(
            "csgmcmc-slides-large",
            "15,000 iterations, for the slides' note on a step size that is too large",
            {"smoke": 1_500, "quick": 5_000, "paper": 15_000},
            seeds=tuple(range(20)),
        ),
    )
