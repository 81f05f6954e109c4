"""A constant step size for the first part of a run, then a polynomial decay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness import Schedule, param


@dataclass(frozen=True, kw_only=True)
class ConstantThenPolynomial(Schedule):
    """h_k = h for k <= hold K, then h ((b + k - hold K) / (b + 1))^-gamma: continuous, K the length of the run.

    With b = 0 it is h (k - k0)^-gamma, as the authors' mixture code has it (k0 = 500 of 50,000).

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC", ICLR 2020, appendix and code.
    """

    step_size: float = param(allowed="(0, inf)", meaning="h of the constant part", tune="[1e-3, 30] x")
    hold: float = param(0.5, "[0, 1]", "share of the run with a constant step", source="Zhang et al. 2020, BLR")
    b: float = param(0.0, "[0, inf)", "offset of the decay in steps", source="Zhang et al. 2020, code")
    gamma: float = param(0.55, "[0, inf)", "decay exponent", source="Zhang et al. 2020, code")

    def step_sizes(self, steps: int, steps_per_epoch: int) -> NDArray[np.float64]:
        late = np.maximum(np.arange(1, steps + 1) - round(self.hold * steps), 1)
        return self.step_size * ((self.b + late) / (self.b + 1)) ** -self.gamma
