"""The 5-mode mixture of the adaptive-drift paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.tasks import Protocol
from tasks.synthetic.mixture import MixtureTask, mixture_metrics


@dataclass(frozen=True, kw_only=True)
class Mixture5(MixtureTask):
    """pi(theta) = sum_i exp(-|theta - mu_i|^2) / (5 pi): 5 equal modes N(mu_i, I/2), gradients with N(0, I) noise.

    The paper prints 1/(10 pi), which integrates to 1/2: the shape is meant. It runs 6 CPU minutes and says neither
    how many steps that is, nor where chains start, nor what is dropped. Ours: 100,000 steps, a tenth of them burn-in,
    8 chains that start uniformly on [-5, 5]^2. Neighbouring modes overlap a little, so exact draws have a
    within-mode covariance ratio of 0.958, by quadrature.

    Source: S. Kim, Q. Song, F. Liang, "Stochastic gradient Langevin dynamics with adaptive drifts", Journal of
    Statistical Computation and Simulation 92, 2022, 4.1 and A.3.
    """

    centres: ClassVar = ((-3.0, -3.0), (-3.0, 0.0), (0.0, 0.0), (3.0, 0.0), (3.0, 3.0))
    variance: ClassVar = 0.5
    box: ClassVar = 5.0
    metrics: ClassVar = mixture_metrics("wasserstein2", within=0.95778, share=0.06098)
    protocols: ClassVar = (
        Protocol(
            "adaptive-drift",
            "the paper's target and noise; lengths and starts are ours",
            {"smoke": 2_000, "quick": 20_000, "paper": 100_000},
            chains=8,
            burn_in=0.1,
        ),
    )
