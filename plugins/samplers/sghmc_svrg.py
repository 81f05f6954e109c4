"""SGHMC with variance-reduced gradients: control variates go with any sampler."""

from __future__ import annotations

from dataclasses import dataclass

from plugins.samplers.control_variates import VarianceReduction
from plugins.samplers.sghmc import SGHMC


@dataclass(frozen=True, kw_only=True)
class SGHMCSVRG(VarianceReduction, SGHMC):
    """sghmc whose gradient noise is that of a difference between theta and where it was a while ago.

        c     <- theta at the start, and before every `period`-th step
        g     =  g_batch(theta) - g_batch(c) + grad U(c)
        v     <- (1 - alpha) v - h g + sqrt(2 alpha h T - h^2 V) xi,    xi ~ N(0, I)
        theta <- theta + v

    sghmc's stationary law, without gradient noise where the terms of U have one Hessian. State: v, c and grad U(c). Two
    gradients a step, and one pass through the data at the start and every `period` steps.

    Source: Z. Li, T. Zhang, S. Cheng, J. Zhu, J. Li, "Stochastic gradient Hamiltonian Monte Carlo with variance
    reduction for Bayesian inference", Machine Learning 108, 2019 (SVRG-HMC), here before Chen et al.'s sghmc.
    """
