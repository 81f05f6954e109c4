"""A step size cut by a factor every so many epochs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness import Schedule, param


@dataclass(frozen=True, kw_only=True)
class StepDecay(Schedule):
    """h_k = h0 gamma^floor(epoch / length), epoch = floor((k - 1) / steps per epoch).

    Source: S. Kim, Q. Song, F. Liang, "Stochastic gradient Langevin dynamics with adaptive drifts", 2022, eq. 4
    (Landsat h0 = 0.1/N, gamma = 0.5, length 300; CIFAR-10 0.5, 40; CIFAR-100 0.1, 90).
    """

    step_size: float = param(allowed="(0, inf)", meaning="h0, of the first epochs", tune="[1e-3, 30] x")
    gamma: float = param(0.5, "(0, 1]", "factor of each cut", source="Kim et al. 2022, CIFAR-10")
    length: int = param(40, "[1, inf)", "epochs between cuts", source="Kim et al. 2022, CIFAR-10")

    def step_sizes(self, steps: int, steps_per_epoch: int) -> NDArray[np.float64]:
        epoch = np.arange(steps) // steps_per_epoch
        return self.step_size * self.gamma ** (epoch // self.length).astype(np.float64)
