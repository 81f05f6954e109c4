"""Cosine cycles with a warm restart each: explore, then sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness import Schedule, Trajectory, param


@dataclass(frozen=True, kw_only=True)
class Cyclical(Schedule):
    """M cosine cycles of C steps; the first share beta of each explores, the rest samples.

        h_k = h0/2 (cos(pi ((k - 1) mod C) / C) + 1),    C = K / M
        r_k = ((k - 1) mod C) / C;   r_k < beta: explore, T = 0, nothing kept;   r_k >= beta: sample at T

    With `samples_per_cycle` = m only the ends of the last m epochs of each cycle are kept, as networks are sampled.
    With `explore_with_noise` the exploration runs at T too, as the authors' mixture code does. C is rounded up as in
    the paper, down as in the authors' network code, or left a real number as in their mixture code.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, eq. 1.
    """

    step_size: float = param(allowed="(0, inf)", meaning="h0, at the start of a cycle", tune="[1e-3, 30] x")
    cycles: int = param(4, "[1, inf)", "M, cycles in the run", source="Zhang et al. 2020, CIFAR", tune="[1, 30]")
    beta: float = param(
        0.8, "[0, 1)", "share of a cycle that explores", source="Zhang et al. 2020, CIFAR-10", tune="[0, 0.9]"
    )
    explore_with_noise: bool = param(False, meaning="noise during exploration", source="Zhang et al. 2020, algorithm 1")
    rounding: str = param("up", choices=("up", "down", "none"), meaning="of C", source="Zhang et al. 2020, eq. 1")
    samples_per_cycle: int | None = param(
        None, "[1, inf)", "keep only the ends of the last so many epochs of a cycle; none: every sampling step",
        source="Zhang et al. 2020, CIFAR code keeps 3",
    )  # fmt: skip

    def trajectory(self, steps: int, steps_per_epoch: int) -> Trajectory:
        whole = {"up": -(-steps // self.cycles), "down": max(1, steps // self.cycles), "none": 0}[self.rounding]
        length, scale = (whole, 1) if whole else (steps, self.cycles)  # C = length / scale, in whole numbers
        k = np.arange(steps, dtype=np.int64)
        position = (k * scale % length) / length
        sampling = position >= self.beta
        cycle = k * scale // length
        cycle_end = np.append(cycle[1:] != cycle[:-1], True)
        kept = sampling
        if self.samples_per_cycle is not None:
            kept = sampling & _ends_of_epochs(cycle_end, steps_per_epoch, self.samples_per_cycle)
        return Trajectory(
            step_size=self.step_size / 2 * (np.cos(np.pi * position) + 1),
            temperature=np.where(sampling | self.explore_with_noise, self.temperature, 0.0),
            keep=kept,
            evaluate=kept & cycle_end,
            cycle=cycle,
            burn_in=np.zeros(steps, dtype=bool),
        )

    def step_sizes(self, steps: int, steps_per_epoch: int) -> NDArray[np.float64]:
        return self.trajectory(steps, steps_per_epoch).step_size


def _ends_of_epochs(cycle_end: NDArray[np.bool_], steps_per_epoch: int, epochs: int) -> NDArray[np.bool_]:
    """The steps that end one of the last so many epochs of a cycle, counted back from its end."""
    steps = np.arange(len(cycle_end))
    ends = np.flatnonzero(cycle_end)
    left = ends[np.searchsorted(ends, steps)] - steps
    return (left % steps_per_epoch == 0) & (left // steps_per_epoch < epochs)
