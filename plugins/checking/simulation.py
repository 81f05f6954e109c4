"""A simulation of a sampler in the harness's own loop at three step sizes, and its statistics as h -> 0.

The bias of a step of finite size is removed to second order, e = (8 m(h/4) - 6 m(h/2) + m(h)) / 3. If m changes by the
share delta of itself from h to h/2, the remainder is of order delta^3 (for sgld, with 1 / (1 - x/2): delta^3/8). This
much is allowed, and delta may be 0.1 at most; otherwise shorter steps are tried. A sampler that is not linear may have
a term in h^1.5, which leaves .0626 delta. That is allowed as well, so for such a sampler it is a variance 6 % off that
is detected with the same certainty.

The sample size: a variance that is 5 % off is detected with a chance of 90 %. e has 101/9 times the variance of a mean,
so N independent values of z^2 give it the standard error sqrt(2 * 101 / 9 / N); N = 205,000 makes that 1 %. A p-value
passes above GREY / (number of p-values), that is below 3.5 standard errors, and P(|z| < 3.5) is 7 % if z has mean 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from harness import Sampler, Trajectory, linear
from harness.engine import Loop
from plugins.checking.gaussian import Recorder
from plugins.checking.law import Array, Broken, finish, streams, trajectory, two_sided, worst
from plugins.checking.targets import Target

LOOKS = (4e-4, 3e-4, 3e-4)
"""The part of LEVEL that is spent at each look; the sum is LEVEL. A grey p-value draws GROWTH times as many chains."""

GROWTH = 4
GREY = 0.05
"""A p-value above GREY / (number of p-values) passes."""

CHAINS = 256
DIM = 20
"""Enough for a thermostat, which fluctuates strongly if it measures the temperature from few coordinates."""

BURN_IN = 6.0
KEPT = 40.0
"""Lengths in units of 1/x steps, the relaxation time of sgld. CHAINS * DIM * KEPT = 205,000 independent z^2."""

MEMORY = 0.2
"""Largest average correlation of the first kept draws with the start; chance alone gives 0.02."""

CHANGE = 0.1
"""Largest relative change from h to h/2."""

FAR = 10.0
"""A multiple of the claimed variance: chains that have gone so far need no longer runs to be found wrong."""

COARSEST, FINEST = 0.2, 0.2 / 64
"""x = h times curvature of the longest step; if it is too long, a quarter of it is tried."""

LONGEST = 16
SURE = 1e-6
"""A p-value below which a sampler is wrong although its chains still depend on their start: the start is an exact draw,
and a correct sampler stays exact."""

LEVELS = 3
RICHARDSON = np.array([1.0, -6.0, 8.0]) / 3
HALF_POWERS = 0.0626
"""A term c h^1.5 leaves c h^1.5 (1 - 6/2^1.5 + 8/4^1.5) / 3 = -.0404 c h^1.5, and changes m by (1 - 1/2^1.5) c h^1.5 =
.646 c h^1.5 from h to h/2: .0626 times that is left. relativistic-sghmc has such a term, because its velocities are in
units of sqrt(h). A linear sampler is known to have none (derived-law)."""


@dataclass(frozen=True)
class Plan:
    """The share of KEPT, x of the longest step, how many times longer than usual runs are, and the least burn-in."""

    share: float = 1.0
    x: float = COARSEST
    stretch: int = 1
    settling: int = 0

    def path(self, target: Target, level: int, *, metric: bool = False, adapted: bool = False) -> Trajectory:
        """Return a path of constant step size, with more steps if they are shorter. Every 1/(4 x)-th draw is kept.

        In a metric that is the Hessian, every direction has curvature 1. Where a burn-in has `adapted` a sampler to its
        path, as many steps follow before the first kept one: from there on the law is that of what was adapted.
        """
        x = self.x / 2**level
        curvature, condition = (1.0, 1.0) if metric else (target.curvature, target.condition)
        slow = self.stretch * condition**0.5 / x
        burn_in, kept = max(round(BURN_IN * slow), self.settling), round(self.share * KEPT * slow)
        rest = round(BURN_IN * slow) if adapted else 0
        steps = burn_in + rest + kept
        every = max(1, round(0.25 / x))
        step = np.arange(steps) - burn_in - rest
        keep = (step >= 0) & (step % every == every - 1)
        return trajectory(np.full(steps, x / curvature), target.T, burn_in, keep)

    def shorter(self) -> Plan | None:
        """Return the plan with steps a quarter as long, or None if they are the FINEST.

        The new plan has as many relaxation times as the first one.
        """
        return Plan(self.share, self.x / 4, settling=self.settling) if self.x > FINEST else None


@dataclass(frozen=True)
class Sample:
    """For each statistic, the sums (C,) over the kept draws of a chain; the weights (C,); the memory of the start."""

    sums: dict[str, Array]
    weights: Array
    memory: float

    def mean(self, name: str) -> float:
        """Return the weighted mean over draws and chains."""
        return float(self.sums[name].sum() / self.weights.sum())

    def pulls(self, name: str) -> Array:
        """Return the influence (C,) of each chain on the mean."""
        pulls: Array = (self.sums[name] - self.mean(name) * self.weights) / self.weights.mean()
        return pulls


def _joined(samples: Sequence[Sample]) -> Sample:
    """Return one sample of the chains of several samples."""
    sums = {name: np.concatenate([sample.sums[name] for sample in samples]) for name in samples[0].sums}
    return Sample(
        sums, np.concatenate([s.weights for s in samples]), float(np.mean([sample.memory for sample in samples]))
    )


@dataclass(eq=False)
class Simulation:
    """A simulation of a sampler on a target at three levels of step size, with more chains on request."""

    sampler: Sampler
    target: Target
    plan: Plan = field(default_factory=Plan)
    chains: int = CHAINS
    levels: list[list[Sample]] = field(default_factory=list)
    seeds: int = 0

    @cached_property
    def half_powers(self) -> bool:
        """Whether the bias may have a term in h^1.5."""
        return bool(self.sampler.adaptive) or not linear.derive(self.sampler, 0.1, 1.0).linear

    def __str__(self) -> str:
        return f"{self.target}; {self.sampler!r}"

    @property
    def tests(self) -> list[str]:
        """The names of the statistics."""
        directions = [] if self.target.condition == 1 else [f"E z_{i}^2" for i in range(self.target.dim)]
        return ["E z", "E z^2", "E z^4", "E (sum z)^2 / D", *directions]

    def expected(self, name: str) -> float:
        """Return the value that a statistic should have."""
        return {"E z": 0.0, "E z^4": self.target.law.fourth}.get(name, 1.0)

    def draw(self, seed: int, chains: int) -> None:
        """Simulate `chains` more chains. The first call also finds a step size and a length that suffice.

        Raise `Broken` if a chain diverges.
        """
        self.seeds += 1
        outcomes = self._levels(seed * 1000 + self.seeds, chains)
        while not self.levels:
            plan = self._next_plan(outcomes)
            if plan is None:
                break
            self.plan = plan
            outcomes = self._levels(seed * 1000 + self.seeds, chains)
        for outcome in outcomes:
            if isinstance(outcome, Broken):
                raise outcome
        samples = [sample for sample in outcomes if isinstance(sample, Sample)]
        self.levels = [[*old, new] for old, new in zip(self.levels or [[]] * LEVELS, samples, strict=True)]

    def _next_plan(self, outcomes: Sequence[Sample | Broken]) -> Plan | None:
        """Return the plan for another attempt, or None if this one suffices."""
        shorter = self.plan.shorter()
        samples = [outcome for outcome in outcomes if isinstance(outcome, Sample)]
        if len(samples) < LEVELS:
            return shorter
        memory = max(sample.memory for sample in samples)
        if samples[0].mean("E z^2") < FAR and self.plan.stretch < LONGEST and memory > MEMORY:
            return replace(self.plan, stretch=4 * self.plan.stretch)
        return shorter if self._delta(samples) > CHANGE else None

    def _delta(self, samples: Sequence[Sample]) -> float:
        """Return the relative change of E z^2 from h to h/2, or half that of E z^4, whichever is larger."""
        second, fourth = (abs(samples[0].mean(name) - samples[1].mean(name)) for name in ("E z^2", "E z^4"))
        return max(second, fourth / self.target.law.fourth / 2)

    def p_values(self) -> dict[str, float]:
        """Return the p-value of each statistic, by a sentence that says what was found.

        Raise `Broken` if the chains still depend on their start and no p-value is below SURE.
        """
        samples = [_joined(level) for level in self.levels]
        delta = min(self._delta(samples), CHANGE)
        p_values = {}
        for name in self.tests:
            should = self.expected(name)
            e = float(RICHARDSON @ [sample.mean(name) for sample in samples])
            pulls = sum(share * sample.pulls(name) for share, sample in zip(RICHARDSON, samples, strict=True))
            error = float(np.std(pulls, ddof=1)) / np.sqrt(len(samples[0].weights))
            left = (delta**3 + (HALF_POWERS * delta if self.half_powers else 0.0)) * max(should, 1.0)
            p_values[f"{name} as h -> 0 is {e:.4g} +- {error:.2g}, should be {should:.4g}"] = two_sided(
                max(abs(e - should) - left, 0.0), error, len(samples[0].weights) - 1
            )
        memory = max(sample.memory for sample in samples)
        if memory > MEMORY and worst(p_values)[1] > SURE:
            raise Broken(
                f"no verdict: chains are still correlated with their start after {len(self._path(LEVELS - 1))} steps; "
                f"use a longer step or faster settings ({self})",
                "a step that moves much less than one of sgld of the same size",
            )
        return p_values

    def _path(self, level: int) -> Trajectory:
        adapted = type(self.sampler).adapt is not Sampler.adapt
        return self.plan.path(self.target, level, metric="metric" in self.sampler.needs, adapted=adapted)

    def _levels(self, seed: int, chains: int) -> list[Sample | Broken]:
        outcomes: list[Sample | Broken] = []
        for level in range(LEVELS):
            outcomes.append(self._run(self._path(level), seed, chains))
            if isinstance(outcomes[-1], Broken):
                break
        return outcomes

    def _run(self, path: Trajectory, seed: int, chains: int) -> Sample | Broken:
        """Run the real loop along a trajectory; return the sample, or `Broken` if a chain diverges."""
        self.sampler.check_steps(path.step_size[:1].tolist(), path.temperature[:1].tolist())
        running = Loop(self.target.task, self.sampler, path, streams(chains, seed), chains)
        start = running.theta.clone()
        finish(running)
        (run,) = running.runs
        if run.divergence is not None:
            x = float(path.step_size[0]) * self.target.curvature
            return Broken(f"a chain goes to infinity by step {run.divergence.step}, h times curvature = {x:g} ({self})")
        recorder = run.observer
        assert isinstance(recorder, Recorder)
        whiten = self.target.law.whiten
        with np.errstate(over="ignore"):  # a chain that is diverging: the statistics show it
            return self._sample(start.numpy() @ whiten, recorder.draws().numpy() @ whiten, recorder)

    def _sample(self, start: Array, z: Array, recorder: Recorder) -> Sample:
        weights = torch.cat(recorder.weights).numpy()
        squares = np.square(z)
        values = {
            "E z": z.mean(2), "E z^2": squares.mean(2), "E z^4": np.square(squares).mean(2),
            "E (sum z)^2 / D": np.square(z.sum(2)) / z.shape[2],
        } | {name: squares[:, :, i] for i, name in enumerate(self.tests[4:])}  # fmt: skip
        return Sample(
            {name: (weights * of).sum(0) for name, of in values.items()},
            weights.sum(0),
            _memory(start, z) if self.target.condition == 1 else 0.0,
        )


def _memory(start: Array, z: Array) -> float:
    """Return the memory of the start (C, D) in the first quarter of the draws z (K, C, D).

    It is the correlation with the start, or the slope on it if that is smaller, averaged over draws; of the values or
    of their sizes, whichever remembers more.
    """
    first = max(len(z) // 4, 1)
    early = z[: first : -(-first // 50)]
    start, early = start.ravel(), early.reshape(len(early), -1)
    left = []
    for before, after in ((start, early), (np.abs(start), np.abs(early))):
        covariance = np.abs((before - before.mean()) @ after.T) / len(before)
        left.append((covariance / (before.std() * np.maximum(before.std(), after.std(axis=1)))).mean())
    return float(max(left))


def judged(family: Sequence[Simulation], seed: int, share: float = 1.0) -> None:
    """Look at all p-values of a family; simulations with grey ones get more chains, until the last look.

    Raise `Broken` if a p-value is too small.

    The family has `share` of LEVEL; the sampler's own law has the rest.
    """
    count = sum(len(simulation.tests) for simulation in family)
    waiting, chains = list(family), [simulation.chains for simulation in family]
    for look, level in enumerate(LOOKS):
        grey = []
        for simulation, size in zip(waiting, chains, strict=True):
            simulation.draw(100 * seed + family.index(simulation), size)
            p_values = simulation.p_values()
            name, p = worst(p_values)
            if p * count < share * level:
                raise Broken(f"{name}: p = {p:.2g} among {count} ({simulation})")
            if p * count < GREY:
                grey.append((simulation, (GROWTH - 1) * size * GROWTH**look))
        waiting, chains = [one for one, _ in grey], [size for _, size in grey]
