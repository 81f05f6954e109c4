"""Law 12: what a sampler leaves stationary, adaptation included, is what it claims: the target, or the declared bias.

Nothing is held fixed. Independent chains start at exact draws of the claimed law and go on, in the harness's own loop,
at three step sizes h, h/2, h/4, until they have forgotten where they started. Chains are independent, so the spread
among them is the Monte Carlo error of a time average, whatever the correlation within a chain.

On targets with a dense precision matrix they are followed for about the relaxation time of the softest direction, and
not asked to forget it: a right sampler stays at the law that it starts from, a wrong one leaves it.

The bias of a step of finite size is taken off to second order, e = (8 m(h/4) - 6 m(h/2) + m(h)) / 3. Where m moves by
the share delta of itself from h to h/2, what is left is of order delta^3 (sgld's 1 / (1 - x/2): delta^3/8); so much is
allowed, and delta may be 0.1 at most. Otherwise the steps become shorter. A sampler that is not linear may have a term
in h^1.5, which leaves .0626 delta: that is allowed as well, so of these a variance 6 % off shows as surely.

The sample size: a variance that is 5 % off shows with a chance of 90 %. e has 101/9 times the variance of a mean, so N
independent values of z^2 give it the standard error sqrt(2 * 101 / 9 / N); N = 205,000 makes that 1 %. A p-value passes
above GREY / (number of p-values), that is below 3.5 standard errors, and P(|z| < 3.5) is 7 % where z has mean 5.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from harness.conformance import forms
from harness.conformance.gaussian import GaussianProblem, GaussianTask, Recorder
from harness.conformance.law import (
    Broken,
    Law,
    Skip,
    distance,
    finish,
    path_of,
    safe_x,
    streams,
    trajectory,
    worst,
)
from harness.conformance.laws import zero_temperature
from harness.conformance.linear import Probe, ScriptedNoise, derive
from harness.conformance.slow import Unsettled, slow_limit
from harness.conformance.targets import GRID, Target
from harness.errors import UsageError
from harness.loop import Loop
from harness.registry import law_of
from harness.sampler import Sampler as _Sampler
from harness.schedule import Trajectory
from harness.stepping import BoundPotential, split

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.sampler import Sampler

    Array = NDArray[np.float64]

LEVEL = 1e-3
"""Chance that a correct sampler fails: shared by all its p-values and LOOKS, by Bonferroni."""

LOOKS = (4e-4, 3e-4, 3e-4)
"""What of LEVEL is spent at each look; the sum is LEVEL. A grey p-value draws GROWTH times as many chains."""

GROWTH = 4
GREY = 0.05
"""Times 1 / (number of p-values): what is above passes."""

CHAINS = 256
DIM = 20
"""Enough for a thermostat, which fluctuates wildly where it has few coordinates to see the temperature by."""

FEW = 2
"""For a sampler that weighs its draws or makes choices by the energy: among few coordinates it varies by as much as T,
so swaps do happen and weights do matter within the length of a run."""

BURN_IN = 6.0
KEPT = 40.0
"""Lengths in units of 1/x steps, the relaxation time of sgld: CHAINS * DIM * KEPT = 205,000 independent z^2."""

SHARE = 0.25
"""Of KEPT, in experiments other than the first: they see a variance that is 10 % off."""

SETTLING = 3000
"""Burn-in of a sampler that weighs its draws, at least: weights that are learned have to be there to be judged."""

MEMORY = 0.2
"""Largest share of the start that the first kept draws may remember, on average; chance alone gives 0.02."""

CHANGE = 0.1
"""Largest relative change from h to h/2."""

ADAPTING = 10_000
"""Burn-in of one simulation of a sampler that overrides `adapt`, which is called in the burn-in only."""

FAR = 10.0
"""Times the claimed variance: chains that have gone so far need no longer runs to be seen wrong."""

COARSEST, FINEST = 0.2, 0.2 / 64
"""x = h times curvature of the longest step; a quarter of it is tried where it is too long."""

LONGEST = 16
SURE = 1e-6
"""A p-value below which a sampler is wrong though its chains remember: from exact draws a right one stays right."""

OPTIMISED = 300
"""Steps of an optimiser that are compared with its rule."""

ROUNDING = 1e-9
"""Relative difference of two ways to write the same equation after so many contracting steps; a bug makes some 1e-3."""

LEVELS = 3
RICHARDSON = np.array([1.0, -6.0, 8.0]) / 3
HALF_POWERS = 0.0626
"""A term c h^1.5 leaves c h^1.5 (1 - 6/2^1.5 + 8/4^1.5) / 3 = -.0404 c h^1.5, and moves m by (1 - 1/2^1.5) c h^1.5 =
.646 c h^1.5 from h to h/2: .0626 times that is left. relativistic-sghmc has such a term: its velocities are in units of
sqrt(h). Of a linear sampler the law is known to have none (derived-law)."""

TEMPERATURES = (1.0, 0.5, 3.0)

DECLARED = 2e-3
"""Relative error allowed of a declared variance against the derived one: digits of a docstring, and interpolation."""


@dataclass(frozen=True)
class Plan:
    """x of the longest step, how many times longer than usual the runs are, the share of KEPT, and least burn-in."""

    share: float = 1.0
    x: float = COARSEST
    stretch: int = 1
    settling: int = 0

    def path(self, target: Target, level: int, *, metric: bool = False) -> Trajectory:
        """A constant step size; the shorter the steps, the more of them. Draws a quarter of 1/x apart are kept.

        In a metric that is the Hessian every direction has curvature 1.
        """
        x = self.x / 2**level
        curvature, condition = (1.0, 1.0) if metric else (target.curvature, target.condition)
        slow = self.stretch * condition**0.5 / x
        burn_in, kept = max(round(BURN_IN * slow), self.settling), round(self.share * KEPT * slow)
        steps = burn_in + kept
        burning = np.arange(steps) < burn_in
        every = max(1, round(0.25 / x))
        keep = ~burning & ((np.arange(steps) - burn_in) % every == every - 1)
        return Trajectory(
            step_size=np.full(steps, x / curvature), temperature=np.full(steps, target.T),
            keep=keep, evaluate=keep, cycle=np.zeros(steps, dtype=np.int64), burn_in=burning,
        )  # fmt: skip

    def shorter(self) -> Plan | None:
        """With steps a quarter as long, unless they are the FINEST; as many relaxation times as at first."""
        return Plan(self.share, self.x / 4, settling=self.settling) if self.x > FINEST else None


@dataclass(frozen=True)
class Sample:
    """Of each statistic: the sums of each chain (C,) over its kept draws; their weights (C,); what is remembered."""

    sums: dict[str, Array]
    weights: Array
    memory: float

    def mean(self, name: str) -> float:
        """The weighted mean over draws and chains."""
        return float(self.sums[name].sum() / self.weights.sum())

    def pulls(self, name: str) -> Array:
        """How much each chain (C,) pulls at the mean."""
        pulls: Array = (self.sums[name] - self.mean(name) * self.weights) / self.weights.mean()
        return pulls


def _joined(samples: Sequence[Sample]) -> Sample:
    """One sample of the chains of several."""
    sums = {name: np.concatenate([sample.sums[name] for sample in samples]) for name in samples[0].sums}
    return Sample(
        sums, np.concatenate([s.weights for s in samples]), float(np.mean([sample.memory for sample in samples]))
    )


@dataclass(eq=False)
class Simulation:
    """A sampler on a target: three levels of step size, and more chains when asked."""

    sampler: Sampler
    target: Target
    plan: Plan = field(default_factory=Plan)
    chains: int = CHAINS
    levels: list[list[Sample]] = field(default_factory=list)
    seeds: int = 0

    @cached_property
    def half_powers(self) -> bool:
        """Whether its bias may have a term in h^1.5."""
        return bool(self.sampler.adaptive) or not derive(self.sampler, 0.1, 1.0).linear

    def __str__(self) -> str:
        return f"{self.target}; {self.sampler!r}"

    @property
    def tests(self) -> list[str]:
        """The statistics, by name."""
        directions = [] if self.target.condition == 1 else [f"E z_{i}^2" for i in range(self.target.dim)]
        return ["E z", "E z^2", "E z^4", "E (sum z)^2 / D", *directions]

    def expected(self, name: str) -> float:
        """What a statistic should be."""
        return {"E z": 0.0, "E z^4": self.target.law.fourth}.get(name, 1.0)

    def draw(self, seed: int, chains: int) -> None:
        """Simulate so many chains more; the first time, find the step size and the length that do."""
        self.seeds += 1
        found = self._levels(seed * 1000 + self.seeds, chains)
        while not self.levels:
            plan = self._better(found)
            if plan is None:
                break
            self.plan = plan
            found = self._levels(seed * 1000 + self.seeds, chains)
        for outcome in found:
            if isinstance(outcome, Broken):
                raise outcome
        samples = [sample for sample in found if isinstance(sample, Sample)]
        self.levels = [[*old, new] for old, new in zip(self.levels or [[]] * LEVELS, samples, strict=True)]

    def _better(self, found: Sequence[Sample | Broken]) -> Plan | None:
        """The plan by which it has to be run again, None where this one did."""
        shorter = self.plan.shorter()
        samples = [outcome for outcome in found if isinstance(outcome, Sample)]
        if len(samples) < LEVELS:
            return shorter
        memory = max(sample.memory for sample in samples)
        if samples[0].mean("E z^2") < FAR and self.plan.stretch < LONGEST and memory > MEMORY:
            return replace(self.plan, stretch=4 * self.plan.stretch)
        return shorter if self._delta(samples) > CHANGE else None

    def _delta(self, samples: Sequence[Sample]) -> float:
        """The relative change of E z^2 from h to h/2, or half that of E z^4, whichever is larger."""
        second, fourth = (abs(samples[0].mean(name) - samples[1].mean(name)) for name in ("E z^2", "E z^4"))
        return max(second, fourth / self.target.law.fourth / 2)

    def p_values(self) -> dict[str, float]:
        """Of each statistic, by what was found."""
        samples = [_joined(level) for level in self.levels]
        delta = min(self._delta(samples), CHANGE)
        found = {}
        for name in self.tests:
            should = self.expected(name)
            e = float(RICHARDSON @ [sample.mean(name) for sample in samples])
            pulls = sum(share * sample.pulls(name) for share, sample in zip(RICHARDSON, samples, strict=True))
            error = float(np.std(pulls, ddof=1)) / np.sqrt(len(samples[0].weights))
            left = (delta**3 + (HALF_POWERS * delta if self.half_powers else 0.0)) * max(should, 1.0)
            found[f"{name} as h -> 0 is {e:.4g} +- {error:.2g}, should be {should:.4g}"] = _tail(
                max(abs(e - should) - left, 0.0), error, len(samples[0].weights) - 1
            )
        memory = max(sample.memory for sample in samples)
        if memory > MEMORY and worst(found)[1] > SURE:
            raise Broken(
                f"no verdict: chains are still correlated with their start after {len(self._path(LEVELS - 1))} steps; "
                f"use a longer step or faster settings ({self})",
                "a step that moves much less than one of sgld of the same size",
            )
        return found

    def _path(self, level: int) -> Trajectory:
        return self.plan.path(self.target, level, metric="metric" in self.sampler.needs)

    def _levels(self, seed: int, chains: int) -> list[Sample | Broken]:
        found: list[Sample | Broken] = []
        for level in range(LEVELS):
            found.append(self._run(self._path(level), seed, chains))
            if isinstance(found[-1], Broken):
                break
        return found

    def _run(self, path: Trajectory, seed: int, chains: int) -> Sample | Broken:
        """The real loop along a trajectory."""
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
    """The lesser of slope and correlation between the start (C, D) and the first quarter of the draws z (K, C, D)."""
    first = max(len(z) // 4, 1)
    early = z[: first : -(-first // 50)]
    start, early = start.ravel(), early.reshape(len(early), -1)
    left = []
    for before, after in ((start, early), (np.abs(start), np.abs(early))):
        covariance = np.abs((before - before.mean()) @ after.T) / len(before)
        left.append((covariance / (before.std() * np.maximum(before.std(), after.std(axis=1)))).mean())
    return float(max(left))


def _tail(off: float, error: float, freedom: int) -> float:
    """The two-sided p-value; NaN where the statistic or its error is."""
    from scipy.stats import t

    if error == 0:
        return float(off == 0)
    return float(2 * t.sf(off / error, freedom))


class _Asked(BoundPotential):
    """The standard normal in one dimension, which notes whether its energy is asked for."""

    energy = False

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """U (C,) and grad U (C, D) at x."""
        self.energy = True
        return super().value_and_grad(x)


def goes_by_energy(sampler: Sampler) -> bool:
    """Whether a step asks for the energy of the minibatch: to weigh its draw, or for a choice."""
    probe = Probe(sampler, COARSEST, 1.0, (1.0,))
    potential = _Asked(GaussianProblem(torch.ones(1, dtype=torch.float64)), 1)
    theta = torch.ones((1, 1), dtype=torch.float64)
    sampler.step(theta, dict(probe.start), potential, probe.h, probe.T, ScriptedNoise())
    return potential.energy


def other_settings(sampler: Sampler) -> Iterator[Sampler]:
    """The sampler with its numbers half as large again, and with two thirds of them; shares go towards 1 and back.

    Means over many steps (shares above .9) get shorter instead, to half and a quarter. What it refuses is left out.
    """
    for power in (1, -1):
        changed = {}
        for spec in dataclasses.fields(sampler):
            value = getattr(sampler, spec.name)
            if not isinstance(value, float) or not value or spec.name == "gradient_variance":
                continue
            inside = spec.metadata.get("allowed", "").endswith((" 1)", " 1]", " 0.5)"))
            if inside and value > 0.9:
                changed[spec.name] = 1 - min(0.5, (2 if power == 1 else 4) * (1 - value))
            else:
                changed[spec.name] = value * 1.5**power
        try:
            if changed:
                yield dataclasses.replace(sampler, **changed)
        except UsageError:
            continue


def simulations(sampler: Sampler) -> list[Simulation]:
    """All that is simulated of a sampler that has a stationary law."""
    law = law_of(type(sampler))
    claimed, frozen = law.variance(sampler), sampler.limit_bias()
    few = goes_by_energy(sampler)
    if claimed != frozen:
        return [
            Simulation(one, _biased(one, kind, T), Plan(1.0 if T == 1 else SHARE))
            for changes in law.settings
            for one in [dataclasses.replace(sampler, **changes)]
            for kind, T in (("gaussian", 1.0), ("gaussian", 3.0), ("quartic", 1.0))
        ]
    size = {"gaussian": FEW, "quartic": FEW, "correlated": FEW, "rotated": 10} if few else {}
    first = [("gaussian", T, 0.0) for T in TEMPERATURES] + [("quartic", T, 0.0) for T in TEMPERATURES]
    first += [("gaussian", 1.0, 1.0), ("quartic", 1.0, 1.0), ("correlated", 1.0, 0.0), ("rotated", 1.0, 1.0)]
    others = [("gaussian", 1.0, 0.0), ("quartic", 1.0, 1.0)]
    if few:  # noise in the energies biases weights and choices by as much as its variance, which no h takes off
        first, others = ([(kind, T, 0.0) for kind, T, _ in some] for some in (first[:6] + first[8:], others))
    settings = [sampler, *([dataclasses.replace(sampler, **s) for s in law.settings] or other_settings(sampler))]
    return [
        Simulation(
            one,
            Target(kind, T, size.get(kind, DIM), V, ratio=law.variance(one) or 1.0),
            *_adapted(sampler, *_size(one, primary=i == k == 0, few=few), primary=i == k == 0),
        )
        for i, one in enumerate(settings)
        for k, (kind, T, V) in enumerate(others if i else first)
    ]


def _size(sampler: Sampler, *, primary: bool, few: bool) -> tuple[Plan, int]:
    """The length and the chains of a simulation: in FEW dimensions so many more chains, or a longer path of fewer."""
    if type(sampler).log_weight is not _Sampler.log_weight:
        return Plan(1.0, settling=SETTLING), CHAINS * DIM // FEW // (4 if primary else 16)
    if few:
        return (Plan(1.0), CHAINS * DIM // FEW) if primary else (Plan(1.0), CHAINS * DIM // FEW // 4)
    return Plan(1.0 if primary else SHARE), CHAINS


def _adapted(sampler: Sampler, plan: Plan, chains: int, *, primary: bool) -> tuple[Plan, int]:
    """With a long burn-in where that may matter: the primary simulation of a sampler that overrides `adapt`."""
    if primary and type(sampler).adapt is not _Sampler.adapt:
        return replace(plan, settling=ADAPTING), chains
    return plan, chains


def _biased(sampler: Sampler, kind: str, T: float) -> Target:
    """A target of independent coordinates with the law that the slow limit of the sampler has there."""
    gradient = GRID + GRID**3 if kind == "quartic" else GRID
    density = slow_limit(sampler, T).density(gradient, T)
    return Target(kind, T, DIM, density=tuple(density))


def check(sampler: Sampler, seed: int = 1) -> None:
    """The law that it ships; where it claims a bias by adaptation, that bias; and all simulations."""
    law = law_of(type(sampler))
    claimed, frozen = law.variance(sampler), sampler.limit_bias()
    if law.ships:
        law.check(sampler)
    if not frozen:
        _without(sampler, frozen, own=law.ships)
        return
    if claimed is not None and (claimed != frozen or (sampler.adaptive and claimed != 1)):
        declared(sampler, claimed)
    judged(simulations(sampler), seed, share=1 - forms.SHARE if law.ships else 1.0)


def _without(sampler: Sampler, frozen: float | None, *, own: bool) -> None:
    """What has no stationary law has another: a rule that it equals, a law that it ships, or a linear loop."""
    if frozen == 0:
        optimiser(sampler)
        return
    if own:
        return
    if not derive(sampler, 0.1, 1.0).linear:
        raise Broken(
            "limit_bias declares no stationary law, the sampler is not linear, and it ships no law of its own: nothing "
            "is shown of it (see harness.SamplerLaw)"
        )
    raise Skip("it declares no stationary law; real-loop holds its path")


def optimiser(sampler: Sampler) -> None:
    """At T = 1 its path, of OPTIMISED steps with noisy gradients, is that of the optimiser that it declares."""
    if type(sampler).zero_temperature is None:
        raise Broken("limit_bias declares an optimiser and zero_temperature does not say which")
    name, rule = zero_temperature.rule_of(sampler)
    task = GaussianTask(variance=0.5)
    h = np.full(OPTIMISED, safe_x(sampler, 0.2) / task.curvature())
    problem = task.build(streams(4), "cpu")
    theta, batches = problem.initial(), split(problem.draw_batches(OPTIMISED), OPTIMISED)
    found = path_of(sampler, task, trajectory(h, 1.0), 4)
    memory: dict[str, Tensor] = {}
    for k, size in enumerate(torch.from_numpy(h)):
        theta, memory = rule(sampler, theta, memory, problem.gradient(theta, batches[k]), size)
        gap = distance(found[k], theta)
        if not gap < ROUNDING:
            raise Broken(f"at T = 1 step {k + 1} differs from {name!r} by {gap:.2g} (relative)")


def declared(sampler: Sampler, claimed: float) -> None:
    """The claimed variance on N(0, 1) at T = 1 is that of the derived slow limit; its noise has one temperature."""
    try:
        limit = slow_limit(sampler)
    except Unsettled as why:
        raise Broken(f"no slow limit: {why}") from None
    found = float(limit.density(GRID, 1.0) @ GRID**2)
    if not abs(found - claimed) < DECLARED * claimed:
        raise Broken(
            f"as h -> 0, adaptation included, the variance on N(0, 1) is {found:.5g}; {claimed:.5g} is declared "
            f"(limit_bias, or the variance of its SamplerLaw)"
        )
    for T in (0.5, 3.0):
        gap = np.abs(slow_limit(sampler, T).d / limit.d - 1).max()
        if not gap < 1e-6:
            raise Broken(f"at T = {T:g} its noise has another temperature than at T = 1: off by {gap:.2g} (relative)")


def judged(family: Sequence[Simulation], seed: int, share: float = 1.0) -> None:
    """Look at all p-values of a family; those that are grey get more chains, up to the last look.

    `share` of LEVEL is theirs; the rest is that of the sampler's own law.
    """
    count = sum(len(simulation.tests) for simulation in family)
    waiting, chains = list(family), [simulation.chains for simulation in family]
    for look, level in enumerate(LOOKS):
        grey = []
        for simulation, size in zip(waiting, chains, strict=True):
            simulation.draw(100 * seed + family.index(simulation), size)
            found = simulation.p_values()
            name, p = worst(found)
            if p * count < share * level:
                raise Broken(f"{name}: p = {p:.2g} among {count} ({simulation})")
            if p * count < GREY:
                grey.append((simulation, (GROWTH - 1) * size * GROWTH**look))
        waiting, chains = [one for one, _ in grey], [size for _, size in grey]


LAW = Law(
    12, "whole-law", check,
    "the scale of the noise, a preconditioner or an average that follows the gradient and biases the law, weights that "
    "are wrong or late, or a step that is not right where U is no quadratic; a bias by construction is declared",
)  # fmt: skip
