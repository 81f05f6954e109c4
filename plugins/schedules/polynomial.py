"""The polynomial decay of Welling and Teh."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness import Schedule, param


@dataclass(frozen=True, kw_only=True)
class Polynomial(Schedule):
    """h_k = a (b + k)^-gamma, k = 1, 2, ...; sum h_k diverges and sum h_k^2 converges for gamma in (0.5, 1].

    Source: M. Welling, Y. W. Teh, "Bayesian Learning via Stochastic Gradient Langevin Dynamics", ICML 2011.
    """

    a: float = param(allowed="(0, inf)", meaning="step size at b + k = 1", tune="[1e-3, 30] x")
    b: float = param(0.0, "[0, inf)", "offset in steps", source="Zhang et al. 2020, mixture")
    gamma: float = param(0.55, "[0, inf)", "decay exponent", source="Zhang et al. 2020, mixture")

    def step_sizes(self, steps: int, steps_per_epoch: int) -> NDArray[np.float64]:
        return self.a * (self.b + np.arange(1, steps + 1)) ** -self.gamma
