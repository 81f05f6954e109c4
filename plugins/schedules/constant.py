"""A constant step size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness import Schedule, param


@dataclass(frozen=True, kw_only=True)
class Constant(Schedule):
    """h_k = h for every k."""

    step_size: float = param(allowed="(0, inf)", meaning="h, multiplies the full-data gradient", tune="[1e-3, 30] x")

    def step_sizes(self, steps: int, steps_per_epoch: int) -> NDArray[np.float64]:
        return np.full(steps, self.step_size)
