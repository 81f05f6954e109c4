"""What law 2 does for a sampler that is not linear: its long run is simulated, and compared with the target.

Independent chains start at exact draws of a target in one dimension and go on, at h and at h/2, until they have
forgotten where they started. Time averages of x and x^2 in each chain, weighted as the sampler says, are extrapolated
to h -> 0 by taking off the first order (2 m(h/2) - m(h)); chains are independent, so their spread is the Monte Carlo
error, whatever the autocorrelation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from harness.conformance import quartic
from harness.conformance.gaussian import GaussianTask, Recorder
from harness.conformance.law import TEMPERATURES, Broken, Skip, finish, loop, trajectory
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.sampler import Sampler
    from harness.schedule import Trajectory

    Array = NDArray[np.float64]

CHAINS = 256
BURN_IN = 6.0
KEPT = 60.0
"""Lengths in units of 1/x steps, the relaxation time of sgld; `Plan.stretch` multiplies them."""

MEMORY = 0.2
"""Largest share of the start that the first kept draws may remember, on average; chance alone gives 0.05."""

CHANGE = 0.1
"""Largest relative change from h to h/2 of which the first order may be taken off."""


@dataclass(frozen=True)
class Target:
    """A target at a temperature."""

    name: str
    T: float

    @property
    def task(self) -> GaussianTask:
        """The task, whose chains start at exact draws."""
        kind = GaussianTask if self.name == "Gaussian" else quartic.QuarticTask
        return kind(curvatures=(1.0,), spread=self.T)

    @property
    def second_moment(self) -> float:
        """E x^2."""
        return self.T if self.name == "Gaussian" else quartic.second_moment(self.T)

    @property
    def curvature(self) -> float:
        """E U'': what h is measured by."""
        return 1.0 if self.name == "Gaussian" else 1 + 3 * self.second_moment

    def __str__(self) -> str:
        return f"{self.name} target, T = {self.T:g}"


@dataclass(frozen=True)
class Plan:
    """x = h times curvature of the coarse run, and how many times longer than usual the runs are."""

    x: float = 0.1
    stretch: int = 1

    def path(self, target: Target, halvings: int) -> Trajectory:
        """A constant step size; the shorter the steps, the more of them."""
        x = self.x / 2**halvings
        burn_in, kept = (round(self.stretch * length / x) for length in (BURN_IN, KEPT))
        return trajectory(np.full(burn_in + kept, x / target.curvature), target.T, burn_in)


@dataclass(frozen=True)
class Sample:
    """The kept draws x (K, C) of chains that started at `start` (C,), with their weights."""

    start: Array
    x: Array
    weights: Array

    def moment(self, power: int) -> tuple[float, Array]:
        """The weighted mean of x^power, and the influence (C,) of each chain: its error is their mean's."""
        values, weights = (self.weights * self.x**power).sum(0), self.weights.sum(0)
        mean = values.sum() / weights.sum()
        return float(mean), (values - mean * weights) / weights.mean()

    def memory(self) -> float:
        """How much of x or |x| at the start is left in the first kept draws: the lesser of slope and correlation."""
        early = self.x[: len(self.x) // 4]
        left = []
        for before, after in ((self.start, early), (np.abs(self.start), np.abs(early))):
            covariance = np.abs((before - before.mean()) @ after.T) / len(before)
            left.append((covariance / (before.std() * np.maximum(before.std(), after.std(axis=1)))).mean())
        return float(max(left))


def targets(sampler: Sampler) -> list[Target]:
    """The Gaussian, and where no bias is declared the quartic, at T = 0.5, 1, 3."""
    names = ("Gaussian", "quartic") if sampler.limit_bias() == 1 else ("Gaussian",)
    return [Target(name, T) for name in names for T in TEMPERATURES]


def p_values(sampler: Sampler, target: Target, seed: int) -> dict[str, float]:
    """p-values of E x and E x^2 as h -> 0, by what was found."""
    coarse, fine = _sample_pair(sampler, target, seed)
    exact = sampler.limit_bias() * target.second_moment
    found = {}
    for power, should in ((1, 0.0), (2, exact)):
        (at_h, noise), (at_half, noise_half) = coarse.moment(power), fine.moment(power)
        extrapolated = 2 * at_half - at_h
        remainder = 2 * min(abs(at_h - at_half) / exact, CHANGE) ** 2 * exact
        error = float((2 * noise_half - noise).std(ddof=1)) / np.sqrt(CHAINS)
        name = f"E x^{power} as h -> 0 ({extrapolated:.4g}, should be {should:.4g})"
        found[name] = _tail(max(abs(extrapolated - should) - remainder, 0.0), error)
    return found


def _tail(distance: float, error: float) -> float:
    from scipy.stats import t

    if error == 0:
        return float(distance == 0)
    return float(2 * t.sf(distance / error, CHAINS - 1))


def _sample_pair(sampler: Sampler, target: Target, seed: int) -> tuple[Sample, Sample]:
    """Runs at h and h/2; longer where the start is remembered, with shorter steps where h is too large."""
    exact = sampler.limit_bias() * target.second_moment
    plan = Plan()
    while True:
        shorter, longer = replace(plan, x=plan.x / 4), replace(plan, stretch=4 * plan.stretch)
        last_x, last_stretch = plan.x < Plan.x, plan.stretch > Plan.stretch
        try:
            coarse, fine = (_sample(sampler, target, plan.path(target, halvings), seed) for halvings in (0, 1))
        except (UsageError, _Lost) as reason:
            if last_x and isinstance(reason, _Lost):
                raise Broken(f"chains go to infinity at h times curvature = {plan.x:g} ({target})") from None
            if last_x:
                raise Skip(f"not linear, and its stationary law is unproven: {reason} ({target})") from None
            plan = shorter
            continue
        if max(coarse.memory(), fine.memory()) > MEMORY:
            if last_stretch:
                raise Skip(
                    f"not linear, and its stationary law is unproven: after {len(coarse.x)} steps of "
                    f"h times curvature = {plan.x:g} chains remember where they started ({target})"
                )
            plan = longer
        elif abs(coarse.moment(2)[0] - fine.moment(2)[0]) > CHANGE * exact and not last_x:
            plan = shorter
        else:
            return coarse, fine


class _Lost(Exception):  # noqa: N818 - tells `_sample_pair` to try shorter steps
    """A chain is not finite."""


def _sample(sampler: Sampler, target: Target, path: Trajectory, seed: int) -> Sample:
    """The real loop along a trajectory."""
    sampler.check_steps(path.step_size.tolist(), path.temperature.tolist())
    running = loop(sampler, target.task, path, CHAINS, seed)
    start = running.theta.clone()
    finish(running)
    recorder = running.runs[0].observer
    assert isinstance(recorder, Recorder)
    if running.runs[0].divergence is not None:
        raise _Lost
    x, weights = recorder.draws()[:, :, 0].numpy(), torch.cat(recorder.weights).numpy()
    return Sample(start[:, 0].numpy(), x, weights)
