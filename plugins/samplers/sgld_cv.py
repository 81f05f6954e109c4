"""SGLD with control variates (Baker et al. 2019), and with a centre that follows (Dubey et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass

from plugins.samplers.control_variates import ControlVariates, VarianceReduction
from plugins.samplers.sgld import SGLD


@dataclass(frozen=True, kw_only=True)
class SGLDCV(ControlVariates, SGLD):
    """sgld whose gradient noise is that of a difference between theta and a centre c near the mode.

        c     <- c - h grad U(c), `descent` times from the start: once, before the run
        g     =  g_batch(theta) - g_batch(c) + grad U(c)
        theta <- theta - h g + sqrt(2 h T - h^2 V) xi,    xi ~ N(0, I)

    g is unbiased wherever c lies, and exact at c: the nearer theta keeps to it, the less gradient noise. On a quadratic
    U whose terms have one Hessian there is none: sgld's exact law, (T / lambda) / (1 - x/2), with any batch. State: c
    and grad U(c). Two gradients a step, and descent + 1 passes through the data at the start.

    Source: J. Baker, P. Fearnhead, E. B. Fox, C. Nemeth, "Control variates for stochastic gradient MCMC", Statistics
    and Computing 29, 2019; they take c from an optimiser of one's choice, the descent is ours.
    """


@dataclass(frozen=True, kw_only=True)
class SGLDSVRG(VarianceReduction, SGLD):
    """sgld whose gradient noise is that of a difference between theta and where it was a while ago.

        c     <- theta at the start, and before every `period`-th step
        g     =  g_batch(theta) - g_batch(c) + grad U(c)
        theta <- theta - h g + sqrt(2 h T - h^2 V) xi,    xi ~ N(0, I)

    As sgld-cv, with a centre that follows the chain from mode to mode. State: c and grad U(c). Two gradients a step,
    and one pass through the data at the start and every `period` steps.

    Source: A. Dubey, S. J. Reddi, B. Poczos, A. J. Smola, E. P. Xing, S. A. Williamson, "Variance Reduction in
    Stochastic Gradient Langevin Dynamics", NIPS 2016 (SVRG-LD).
    """
