"""Two stages, each with a step size and a temperature: noise off, then on, or hot, then cold."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness import Schedule, Trajectory, param


@dataclass(frozen=True, kw_only=True)
class TwoStages(Schedule):
    """h1 and T1 for the first `share` of the run, then h and T; the first stage is not kept.

        h_k, T_k = h1, T1  for k <= share K;    h, T  after it

    With T1 = 0 it finds a mode before it samples, as the baselines of Zhang et al. (ICLR 2020) do in 150 of 200
    epochs; with T = 0 it samples before it settles, as santa is meant to.
    """

    step_size: float = param(allowed="(0, inf)", meaning="h, of the second stage", tune="[1e-3, 30] x")
    first_step_size: float = param(allowed="(0, inf)", meaning="h1, of the first stage")
    first_temperature: float = param(0.0, "[0, inf)", "T1, of the first stage", source="Zhang et al. 2020, 5.2")
    share: float = param(0.75, "(0, 1)", "of the run in the first stage", source="Zhang et al. 2020: 150 of 200 epochs")

    def step_sizes(self, steps: int, steps_per_epoch: int) -> NDArray[np.float64]:
        return np.where(self._first(steps), self.first_step_size, self.step_size)

    def trajectory(self, steps: int, steps_per_epoch: int) -> Trajectory:
        whole = super().trajectory(steps, steps_per_epoch).quiet(int(self._first(steps).sum()))
        return replace(whole, temperature=np.where(self._first(steps), self.first_temperature, self.temperature))

    def _first(self, steps: int) -> NDArray[np.bool_]:
        return np.arange(steps) < round(self.share * steps)
