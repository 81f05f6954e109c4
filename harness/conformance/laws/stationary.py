"""What law 2 does for a sampler that is not linear: its long run is simulated, and compared with the target.

Independent chains start at exact draws of a target with independent coordinates and go on, at h and at h/2, until they
have forgotten where they started. Those that never do may still show the sampler wrong, never right. Time averages of
a few statistics in each chain, weighted as the sampler says, are extrapolated to h -> 0 by taking off the first order,
e(h) = 2 m(h/2) - m(h). The spread among chains is the Monte Carlo error, whatever the correlation within a chain.

The second order that is left is about the square of the first where m is a smooth function of x = h times curvature, as
sgld's 1 / (1 - x/2). A sampler that needs shorter steps than such a function would has a scale of its own for h (a
thermostat: what the friction fluctuates by, over the friction), and its second order may exceed the square of the first
many times over. It is measured then, by a run at h/4: e(h/2) - e(h) is three times what e(h/2) is off by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from harness.conformance.experiment import PValues
from harness.conformance.gaussian import GaussianProblem, GaussianTask, Recorder
from harness.conformance.law import TEMPERATURES, Broken, Skip, finish, trajectory
from harness.conformance.linear import Probe, ScriptedNoise
from harness.conformance.quartic import QuarticTask, second_moment
from harness.errors import UsageError
from harness.loop import Loop
from harness.stepping import BoundPotential

if TYPE_CHECKING:
    from torch import Tensor

    from harness.randomness import Streams
    from harness.sampler import Sampler
    from harness.schedule import Trajectory

    Array = NDArray[np.float64]

CHAINS = 64
DIM = 20
"""Enough for a thermostat, which fluctuates wildly where it has few coordinates to see the temperature by."""

FEW = 2
"""For a sampler that weighs its draws or makes choices by the energy: among few coordinates it varies by as much as T,
so swaps do happen and weights do matter within the length of a run."""

BURN_IN = 6.0
KEPT = 20.0
"""Lengths in units of 1/x steps, the relaxation time of sgld; `Plan.stretch` multiplies them."""

MEMORY = 0.2
"""Largest share of the start that the first kept draws may remember, on average; chance alone gives 0.02."""

CHANGE = 0.05
"""Largest relative change from h to h/2 of which the first order may be taken off."""

FAR = 10.0
"""Times the exact variance: chains that have gone so far need no longer runs to be seen wrong."""

COARSEST, FINEST = 0.1, 0.1 / 16
"""x = h times curvature of the longer step; a quarter of it is tried where it is too long."""

LONGEST = 16

SURE = 1e-6
"""A p-value below which a sampler is wrong though its chains remember: from exact draws a right one stays right."""


@dataclass(frozen=True)
class Target:
    """A target at a temperature: the standard normal, or the quartic."""

    T: float
    quartic: bool = False
    dim: int = DIM

    def task(self, limit_bias: float) -> GaussianTask:
        """The task; chains start at exact draws of the law that the sampler should have."""
        kind = QuarticTask if self.quartic else GaussianTask
        return kind(curvatures=(1.0,) * self.dim, spread=limit_bias * self.T)

    @property
    def variance(self) -> float:
        """E x^2 of a coordinate."""
        return second_moment(self.T) if self.quartic else self.T

    @property
    def curvature(self) -> float:
        """The mean of U'': what a step size is measured by."""
        return 1 + 3 * self.variance if self.quartic else 1.0

    def __str__(self) -> str:
        return f"{'quartic' if self.quartic else 'Gaussian'} target at T = {self.T:g}"


@dataclass(frozen=True)
class Plan:
    """x of the longer step, and how many times longer than usual the runs are."""

    x: float = COARSEST
    stretch: int = 1

    def path(self, target: Target, halvings: int) -> Trajectory:
        """A constant step size; the shorter the steps, the more of them."""
        x = self.x / 2**halvings
        burn_in, kept = (round(self.stretch * length / x) for length in (BURN_IN, KEPT))
        return trajectory(np.full(burn_in + kept, x / target.curvature), target.T, burn_in)

    def shorter(self) -> Plan | None:
        """With steps a quarter as long, unless they are the FINEST; as many relaxation times as at first."""
        return Plan(self.x / 4) if self.x > FINEST else None


@dataclass(frozen=True)
class Sample:
    """What the kept draws of one repeat say: each statistic's weighted mean, and how much each chain (C,) pulls at it.

    `memory` is how much of x or |x| at the start is left in the first kept draws.
    """

    means: dict[str, tuple[float, Array]]
    memory: float


def _sample(start: Array, x: Array, weights: Array) -> Sample:
    """From the kept draws x (K, C, D) of chains that started at `start` (C, D), and their weights (K, C)."""
    values = {"E x": x.mean(2), "E x^2": np.square(x).mean(2), "E (sum x)^2 / D": np.square(x.sum(2)) / x.shape[2]}
    return Sample({name: _weighted(of, weights) for name, of in values.items()}, _memory(start, x))


def _weighted(values: Array, weights: Array) -> tuple[float, Array]:
    """The weighted mean of values (K, C), and how much each chain (C,) pulls at it."""
    sums, weights = (weights * values).sum(0), weights.sum(0)
    mean = float(sums.sum() / weights.sum())
    return mean, (sums - mean * weights) / weights.mean()


def _memory(start: Array, x: Array) -> float:
    """The lesser of slope and correlation between the start (C, D) and the first quarter of the draws x (K, C, D)."""
    first = len(x) // 4
    early = x[: first : -(-first // 50)]
    start, early = start.ravel(), early.reshape(len(early), -1)
    left = []
    for before, after in ((start, early), (np.abs(start), np.abs(early))):
        covariance = np.abs((before - before.mean()) @ after.T) / len(before)
        left.append((covariance / (before.std() * np.maximum(before.std(), after.std(axis=1)))).mean())
    return float(max(left))


def experiments(sampler: Sampler) -> list[LongRun]:
    """On the Gaussian, and where no bias is declared the quartic, at T = 0.5, 1, 3, in FEW or DIM dimensions."""
    kinds = (False, True) if sampler.limit_bias() == 1 else (False,)
    dim = FEW if _goes_by_energy(sampler) else DIM
    return [LongRun(sampler, Target(T, quartic, dim)) for quartic in kinds for T in TEMPERATURES]


class _Asked(BoundPotential):
    """The standard normal in one dimension, which notes whether its energy is asked for."""

    energy = False

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """U (C,) and grad U (C, D) at x."""
        self.energy = True
        return super().value_and_grad(x)


def _goes_by_energy(sampler: Sampler) -> bool:
    """Whether a step asks for the energy: to weigh its draw, or for a choice."""
    probe = Probe(sampler, COARSEST, 1.0, (1.0,))
    potential = _Asked(GaussianProblem(torch.ones(1, dtype=torch.float64)), 1)
    theta = torch.ones((1, 1), dtype=torch.float64)
    sampler.step(theta, dict(probe.start), potential, probe.h, probe.T, ScriptedNoise())
    return potential.energy


class LongRun:
    """A sampler on a target. Each repeat goes by its own draws: longer where its chains remember where they started,
    with shorter steps where the difference between h and h/2 is more than a first order.
    """

    chains = CHAINS

    def __init__(self, sampler: Sampler, target: Target) -> None:
        bias = sampler.limit_bias()
        assert bias, "without a stationary law there is nothing to simulate"
        self.sampler = sampler
        self.target = target
        self.task = target.task(bias)
        self.exact = bias * target.variance

    def __str__(self) -> str:
        return str(self.target)

    def p_values(self, streams: Sequence[Streams]) -> list[PValues | Broken | Skip]:
        """p-values of each statistic as h -> 0, by what was found."""
        repeats = [streams[first : first + CHAINS] for first in range(0, len(streams), CHAINS)]
        found: dict[int, PValues | Broken | Skip] = {}
        waiting = {Plan(): list(range(len(repeats)))}
        while waiting:
            plan, members = waiting.popitem()
            for i, outcome in zip(members, self._tried(plan, [repeats[i] for i in members]), strict=True):
                if isinstance(outcome, Plan):
                    waiting.setdefault(outcome, []).append(i)
                else:
                    found[i] = outcome
        return [found[i] for i in range(len(repeats))]

    def _tried(self, plan: Plan, repeats: Sequence[Sequence[Streams]]) -> list[PValues | Broken | Skip | Plan]:
        """What each repeat finds at h and h/2, and h/4 if need be, or the plan by which it has to be run again."""
        halvings = range(2 if plan.x == COARSEST else 3)
        try:
            runs = [self._run(plan.path(self.target, k), repeats) for k in halvings]
        except UsageError as reason:
            unproven = Skip(f"not linear, and its stationary law is unproven: {reason} ({self.target})")
            return [plan.shorter() or unproven] * len(repeats)
        return [self._judged(plan, samples) for samples in zip(*runs, strict=True)]

    def _judged(self, plan: Plan, outcomes: Sequence[Sample | Broken]) -> PValues | Broken | Skip | Plan:
        shorter = plan.shorter()
        samples = [outcome for outcome in outcomes if isinstance(outcome, Sample)]
        lost = [outcome for outcome in outcomes if isinstance(outcome, Broken)]
        if lost:
            return shorter or lost[0]
        coarse, fine = (sample.means["E x^2"][0] for sample in samples[:2])
        memory = max(sample.memory for sample in samples)
        if coarse < FAR * self.exact and plan.stretch < LONGEST and memory > MEMORY:
            return replace(plan, stretch=4 * plan.stretch)
        if abs(coarse - fine) > CHANGE * self.exact and shorter:
            return shorter
        found = self._compared(samples)
        if memory > MEMORY and min(found.values()) > SURE:
            steps = int(plan.path(self.target, len(samples) - 1).keep.sum())
            return Skip(
                f"not linear, and its stationary law is unproven: after {steps} steps chains remember where they "
                f"started ({self.target})"
            )
        return found

    def _compared(self, samples: Sequence[Sample]) -> PValues:
        found = {}
        for name, should in {"E x": 0.0, "E x^2": self.exact, "E (sum x)^2 / D": self.exact}.items():
            m, pulls = zip(*(sample.means[name] for sample in samples), strict=True)
            first_order = [2 * half - whole for whole, half in pairwise(m)]
            error = float((2 * pulls[-1] - pulls[-2]).std(ddof=1)) / np.sqrt(CHAINS)
            if len(first_order) == 1:
                left = 2 * self.exact * min(abs(m[0] - m[1]) / self.exact, CHANGE) ** 2
            else:
                left = abs(first_order[1] - first_order[0]) / 3
            off = max(abs(first_order[-1] - should) - left, 0.0)
            found[f"{name} as h -> 0 ({first_order[-1]:.4g}, should be {should:.4g})"] = _tail(off, error)
        return found

    def _run(self, path: Trajectory, repeats: Sequence[Sequence[Streams]]) -> list[Sample | Broken]:
        """The real loop along a trajectory, each repeat a run of it."""
        self.sampler.check_steps(path.step_size.tolist(), path.temperature.tolist())
        streams = [chain for repeat in repeats for chain in repeat]
        running = Loop(self.task, self.sampler, path, streams, CHAINS)
        start = running.theta.clone()
        finish(running)
        found: list[Sample | Broken] = []
        for run in running.runs:
            if run.divergence is not None:
                x = float(path.step_size[0]) * self.target.curvature
                found.append(Broken(f"chains go to infinity at h times curvature = {x:g} ({self.target})"))
                continue
            recorder = run.observer
            assert isinstance(recorder, Recorder)
            weights = torch.cat(recorder.weights).numpy()
            found.append(_sample(start[run.rows].numpy(), recorder.draws().numpy(), weights))
        return found


def _tail(off: float, error: float) -> float:
    from scipy.stats import t

    if not error > 0:
        return float(off == 0)
    return float(2 * t.sf(off / error, CHAINS - 1))
