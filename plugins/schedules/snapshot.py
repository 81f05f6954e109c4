"""Cosine cycles of an optimiser that keep one model each, where a cycle ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from harness import Schedule, Trajectory, param
from plugins.schedules.cyclical import Cyclical


@dataclass(frozen=True, kw_only=True)
class Snapshot(Schedule):
    """M cosine cycles; only the last step of each is kept, and nothing of steps that are left over.

        h_k = h0/2 (cos(pi ((k - 1) mod C) / C) + 1),    C = K / M

    The temperature matters to samplers alone: under an optimiser this is the snapshot ensemble.

    Source: G. Huang et al., "Snapshot Ensembles: Train 1, get M for free", ICLR 2017, eq. 2; M and the rounding of C
    as in R. Zhang et al., "Cyclical Stochastic Gradient MCMC", ICLR 2020.
    """

    step_size: float = param(allowed="(0, inf)", meaning="h0, at the start of a cycle", tune="[1e-3, 30] x")
    cycles: int = param(4, "[1, inf)", "M, cycles in the run", source="Zhang et al. 2020, CIFAR")
    rounding: str = param("up", choices=("up", "down", "none"), meaning="of C", source="Zhang et al. 2020, eq. 1")

    def trajectory(self, steps: int, steps_per_epoch: int) -> Trajectory:
        cosine = Cyclical(
            step_size=self.step_size, cycles=self.cycles, beta=0.0, rounding=self.rounding,
            temperature=self.temperature,
        ).trajectory(steps, steps_per_epoch)  # fmt: skip
        ends = np.append(cosine.cycle[1:] != cosine.cycle[:-1], True) & (cosine.cycle < self.cycles)
        return replace(cosine, keep=ends, evaluate=ends)
