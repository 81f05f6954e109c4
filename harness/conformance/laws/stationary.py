"""What law 2 does for a sampler that is not linear: its long run is simulated, and compared with the target.

Independent chains start at exact draws of a target with independent coordinates and go on, at h and at h/2, until they
have forgotten where they started. Those that never do may still show the sampler wrong, never right. Time averages of
a few statistics in each chain, weighted as the sampler says, are extrapolated to h -> 0 by taking off the first order,
2 m(h/2) - m(h). The spread among chains is the Monte Carlo error, whatever the correlation within a chain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from harness.conformance.gaussian import GaussianProblem, GaussianTask, Recorder
from harness.conformance.law import TEMPERATURES, Broken, Skip, finish, loop, trajectory
from harness.conformance.linear import Probe, ScriptedNoise
from harness.conformance.quartic import QuarticTask, second_moment
from harness.errors import UsageError
from harness.stepping import BoundPotential

if TYPE_CHECKING:
    from torch import Tensor

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


@dataclass(frozen=True)
class Sample:
    """The kept draws x (K, C, D) of chains that started at `start` (C, D), with their weights (K, C)."""

    start: Array
    x: Array
    weights: Array

    def mean(self, values: Array) -> tuple[float, Array]:
        """The weighted mean of values (K, C), and how much each chain (C,) pulls at it."""
        sums, weights = (self.weights * values).sum(0), self.weights.sum(0)
        mean = float(sums.sum() / weights.sum())
        return mean, (sums - mean * weights) / weights.mean()

    def variance(self) -> float:
        """Estimate of E x^2."""
        return self.mean(np.square(self.x).mean(2))[0]

    def memory(self) -> float:
        """How much of x or |x| at the start is left in the first kept draws: the lesser of slope and correlation."""
        first = len(self.x) // 4
        early = self.x[: first : -(-first // 50)]
        start, early = self.start.ravel(), early.reshape(len(early), -1)
        left = []
        for before, after in ((start, early), (np.abs(start), np.abs(early))):
            covariance = np.abs((before - before.mean()) @ after.T) / len(before)
            left.append((covariance / (before.std() * np.maximum(before.std(), after.std(axis=1)))).mean())
        return float(max(left))


def targets(sampler: Sampler) -> list[Target]:
    """The Gaussian, and where no bias is declared the quartic, at T = 0.5, 1, 3, in FEW or DIM dimensions."""
    kinds = (False, True) if sampler.limit_bias() == 1 else (False,)
    dim = FEW if _goes_by_energy(sampler) else DIM
    return [Target(T, quartic, dim) for quartic in kinds for T in TEMPERATURES]


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


def p_values(sampler: Sampler, target: Target, seed: int) -> dict[str, float]:
    """p-values of each statistic as h -> 0, by what was found."""
    exact = _bias(sampler) * target.variance
    coarse, fine = _runs(sampler, target, exact, seed)
    found = {}
    for name, (at_h, at_half, should) in {
        "E x": (coarse.x.mean(2), fine.x.mean(2), 0.0),
        "E x^2": (np.square(coarse.x).mean(2), np.square(fine.x).mean(2), exact),
        "E (sum x)^2 / D": (np.square(coarse.x.sum(2)) / target.dim, np.square(fine.x.sum(2)) / target.dim, exact),
    }.items():
        (m, pull), (m_half, pull_half) = coarse.mean(at_h), fine.mean(at_half)
        error = float((2 * pull_half - pull).std(ddof=1)) / np.sqrt(CHAINS)
        second_order = 2 * exact * min(abs(m - m_half) / exact, CHANGE) ** 2
        off = max(abs(2 * m_half - m - should) - second_order, 0.0)
        found[f"{name} as h -> 0 ({2 * m_half - m:.4g}, should be {should:.4g})"] = _tail(off, error)
    if max(coarse.memory(), fine.memory()) > MEMORY and min(found.values()) > SURE:
        raise Skip(
            f"not linear, and its stationary law is unproven: after {len(fine.x)} steps chains remember where they "
            f"started ({target})"
        )
    return found


def _bias(sampler: Sampler) -> float:
    bias = sampler.limit_bias()
    assert bias, "without a stationary law there is nothing to simulate"
    return bias


def _tail(off: float, error: float) -> float:
    from scipy.stats import t

    if not error > 0:
        return float(off == 0)
    return float(2 * t.sf(off / error, CHAINS - 1))


def _runs(sampler: Sampler, target: Target, exact: float, seed: int) -> tuple[Sample, Sample]:
    """Runs at h and h/2: longer where the start is remembered, with shorter steps where h is too large."""
    plan = Plan()
    while True:
        finest = plan.x <= FINEST
        shorter = replace(plan, x=plan.x / 4)
        try:
            coarse, fine = (_run(sampler, target, plan.path(target, halvings), seed) for halvings in (0, 1))
        except (UsageError, Broken) as reason:
            if not finest:
                plan = shorter
                continue
            if isinstance(reason, Broken):
                raise
            raise Skip(f"not linear, and its stationary law is unproven: {reason} ({target})") from reason
        near = coarse.variance() < FAR * exact
        if near and plan.stretch < LONGEST and max(coarse.memory(), fine.memory()) > MEMORY:
            plan = replace(plan, stretch=4 * plan.stretch)
        elif abs(coarse.variance() - fine.variance()) > CHANGE * exact and not finest:
            plan = shorter
        else:
            return coarse, fine


def _run(sampler: Sampler, target: Target, path: Trajectory, seed: int) -> Sample:
    """The real loop along a trajectory."""
    sampler.check_steps(path.step_size.tolist(), path.temperature.tolist())
    running = loop(sampler, target.task(_bias(sampler)), path, CHAINS, seed)
    start = running.theta.clone()
    finish(running)
    recorder = running.runs[0].observer
    assert isinstance(recorder, Recorder)
    if running.runs[0].divergence is not None:
        x = float(path.step_size[0]) * target.curvature
        raise Broken(f"chains go to infinity at h times curvature = {x:g} ({target})")
    return Sample(start.numpy(), recorder.draws().numpy(), torch.cat(recorder.weights).numpy())
