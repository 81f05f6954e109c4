"""Down from one step size to another, then a polynomial decay: the non-cyclical baseline on CIFAR."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness import Schedule, Trajectory, param


@dataclass(frozen=True, kw_only=True)
class RampThenPolynomial(Schedule):
    """A ramp over the first `ramp` K steps, then h_k = a (b + k - ramp K)^-gamma, K the length of the run.

        linear      h_k = start + (end - start) (k - 1) / (ramp K - 1)
        geometric   h_k = start (end / start)^((k - 1) / (ramp K - 1))

    The ramp is at T = 0, and nothing of it is kept, unless `ramp_with_noise` (then it is at T and kept as the rest).

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC", ICLR 2020, appendix K: from 0.1 to 0.001 (on the mean
    loss) in 150 of 200 epochs without noise, then a (b + k)^-gamma. The shape of the ramp is not stated.
    """

    start: float = param(allowed="(0, inf)", meaning="step size of the first step")
    end: float = param(allowed="(0, inf)", meaning="step size at the end of the ramp")
    a: float = param(allowed="(0, inf)", meaning="step size of the decay at b + k - ramp K = 1")
    ramp: float = param(0.75, "[0, 1]", "share of the run on the ramp", source="Zhang et al. 2020: 150 of 200 epochs")
    b: float = param(0.0, "[0, inf)", "offset of the decay in steps", source="ours: not recovered from the paper")
    gamma: float = param(0.55, "[0, inf)", "decay exponent", source="Zhang et al. 2020, mixture code")
    shape: str = param("linear", choices=("linear", "geometric"), meaning="of the ramp", source="ours: not stated")
    ramp_with_noise: bool = param(False, meaning="noise on the ramp", source="Zhang et al. 2020, section 5.2")

    def step_sizes(self, steps: int, steps_per_epoch: int) -> NDArray[np.float64]:
        length = round(self.ramp * steps)
        share = np.arange(length) / max(length - 1, 1)
        linear = self.start + (self.end - self.start) * share
        ramp = linear if self.shape == "linear" else self.start * (self.end / self.start) ** share
        decay = self.a * (self.b + np.arange(1, steps - length + 1)) ** -self.gamma
        return np.concatenate([ramp, decay])

    def trajectory(self, steps: int, steps_per_epoch: int) -> Trajectory:
        whole = super().trajectory(steps, steps_per_epoch)
        return whole if self.ramp_with_noise else whole.quiet(round(self.ramp * steps))
