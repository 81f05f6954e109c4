"""Law 12: the stationary law of a sampler, adaptation included, is what it claims: the target, or the declared bias.

Nothing is held fixed. Independent chains start at exact draws of the claimed law and continue, in the harness's own
loop, at three step sizes h, h/2, h/4, until they have forgotten their start. Chains are independent, so the spread
among them is the Monte Carlo error of a time average, whatever the correlation within a chain.

On targets with a dense precision matrix they run for about the relaxation time of the softest direction, and need not
forget their start: a correct sampler stays at the law from which it starts, a wrong one leaves it.
`plugins.checking.simulation` documents the bias that is removed, the errors and the sample sizes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from harness import Sampler, UsageError, linear
from plugins.checking import forms, one_step_drift
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import Broken, Law, Skip, cycles, distance, path_of, safe_x, streams, trajectory
from plugins.checking.sampler_law import law_of
from plugins.checking.samplers import coordinates, zero_temperature
from plugins.checking.samplers.exact import is_metropolis
from plugins.checking.simulation import CHAINS, COARSEST, DIM, Plan, Simulation, judged
from plugins.checking.slow import Unsettled, slow_limit
from plugins.checking.targets import GRID, Target

FEW = 2
"""Dimensions for a sampler that weights its draws or makes choices by the energy. Among few coordinates the energy
varies by as much as T, so swaps happen, proposals are accepted and weights matter within the length of a run."""

SHARE = 0.25
"""Share of KEPT in experiments other than the first: they detect a variance that is 10 % off."""

SETTLING = 3000
"""Least burn-in of a sampler that weights its draws: learned weights must have settled before they are tested."""

ADAPTING = 10_000
"""Burn-in of one simulation of a sampler that overrides `adapt`, which is called during the burn-in only."""

OPTIMISED = 300
"""Steps of an optimiser that are compared with its declared rule."""

ROUNDING = 1e-9
"""Relative difference of two forms of the same equation after many contracting steps; an error causes some 1e-3."""

TEMPERATURES = (1.0, 0.5, 3.0)

DECLARED = 2e-3
"""Relative error allowed for a declared variance against the derived one: digits of a docstring, and interpolation."""


class _EnergyRecorder(linear.QuadraticPotential):
    """A potential that records whether its energy is requested."""

    asked = False

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D) at x."""
        self.asked = True
        return super().value_and_grad(x)


def goes_by_energy(sampler: Sampler) -> bool:
    """Return whether a step requests the energy of the minibatch, to weight its draw or to make a choice."""
    probe = linear.Probe(sampler, COARSEST, 1.0, (1.0,))
    potential = _EnergyRecorder(torch.ones(1, dtype=torch.float64))
    theta = torch.ones((1, 1), dtype=torch.float64)
    sampler.step(theta, dict(probe.start), potential, probe.h, probe.T, linear.ScriptedNoise())
    return potential.asked


def is_tested(sampler: Sampler) -> bool:
    """Return whether a sampler proposes by the minibatch and has a Metropolis test on all the data.

    Gradient noise makes the test reject.
    """
    return bool(sampler.gradients_per_step and is_metropolis(sampler, COARSEST, 1.0))


def other_settings(sampler: Sampler) -> Iterator[Sampler]:
    """Yield the sampler with its numbers times 1.5, then over 1.5.

    Shares above .9, which are means over many steps, become shorter means instead: a half, then a quarter of their
    length. Settings that the sampler refuses are left out.
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
    """Return all simulations of a sampler that has a stationary law."""
    law = law_of(sampler)
    claimed, frozen = law.variance(sampler), sampler.limit_bias()
    few, tested = goes_by_energy(sampler), is_tested(sampler)
    if claimed != frozen:
        return [
            Simulation(one, _biased(one, kind, T), Plan(1.0 if T == 1 else SHARE))
            for changes in law.settings
            for one in [dataclasses.replace(sampler, **changes)]
            for kind, T in (("gaussian", 1.0), ("gaussian", 3.0), ("quartic", 1.0))
        ]
    size = {"gaussian": FEW, "quartic": FEW, "correlated": FEW, "rotated": 10} if few or tested else {}
    first = [("gaussian", T, 0.0) for T in TEMPERATURES] + [("quartic", T, 0.0) for T in TEMPERATURES]
    first += [("gaussian", 1.0, 1.0), ("quartic", 1.0, 1.0), ("correlated", 1.0, 0.0), ("rotated", 1.0, 1.0)]
    others = [("gaussian", 1.0, 0.0), ("quartic", 1.0, 1.0)]
    if few:  # noise in the energies biases weights and choices by as much as its variance, which no h removes
        first, others = ([(kind, T, 0.0) for kind, T, _ in some] for some in (first[:6] + first[8:], others))
    linear_law = not sampler.adaptive and linear.derive(sampler, 0.1, 1.0).linear and not cycles(sampler)
    known = linear_law or one_step_drift.applies(sampler)
    small = [
        Simulation(sampler, Target("gaussian", 1.0, D, ratio=claimed or 1.0), *_size(sampler, primary=False, few=True))
        for D in (() if known else dims(sampler)[:-1])
        if D not in {DIM, *size.values()}
    ]
    settings = [sampler, *([dataclasses.replace(sampler, **s) for s in law.settings] or other_settings(sampler))]
    return [
        Simulation(
            one,
            Target(kind, T, size.get(kind, DIM), V, ratio=law.variance(one) or 1.0),
            *_adapted(sampler, *_size(one, primary=i == k == 0, few=few or tested), primary=i == k == 0),
        )
        for i, one in enumerate(settings)
        for k, (kind, T, V) in enumerate(others if i else first)
    ] + small


def dims(sampler: Sampler) -> tuple[int, ...]:
    """Return the dimensions that the laws try: a few, or one if each coordinate moves as it would alone."""
    tried = (1,) if coordinates.independent(sampler) else (1, FEW, DIM)
    return tuple(D for D in tried if sampler.least_dimension <= D)


def _size(sampler: Sampler, *, primary: bool, few: bool) -> tuple[Plan, int]:
    """Return the plan and the number of chains of a simulation; in FEW dimensions more chains are needed."""
    if type(sampler).log_weight is not Sampler.log_weight:
        return Plan(1.0, settling=SETTLING), CHAINS * DIM // FEW // (4 if primary else 16)
    if few:
        return (Plan(1.0), CHAINS * DIM // FEW) if primary else (Plan(1.0), CHAINS * DIM // FEW // 4)
    return Plan(1.0 if primary else SHARE), CHAINS


def _adapted(sampler: Sampler, plan: Plan, chains: int, *, primary: bool) -> tuple[Plan, int]:
    """Lengthen the burn-in for the primary simulation of a sampler that overrides `adapt`."""
    if primary and type(sampler).adapt is not Sampler.adapt:
        return replace(plan, settling=ADAPTING), chains
    return plan, chains


def _biased(sampler: Sampler, kind: str, T: float) -> Target:
    """Return a target of independent coordinates with the law that the slow limit of the sampler has there."""
    gradient = GRID + GRID**3 if kind == "quartic" else GRID
    density = slow_limit(sampler, T).density(gradient, T)
    return Target(kind, T, DIM, density=tuple(density))


def check(sampler: Sampler, seed: int = 1) -> None:
    """Check the law that the sampler ships, the bias by adaptation that it claims, if any, and all simulations."""
    law = law_of(sampler)
    claimed, frozen = law.variance(sampler), sampler.limit_bias()
    if law.ships:
        law.check(sampler)
    if not frozen:
        _check_without_law(sampler, frozen, ships=law.ships)
        return
    if claimed is not None and (claimed != frozen or (sampler.adaptive and claimed != 1)):
        declared(sampler, claimed)
    if claimed == frozen and one_step_drift.applies(sampler):
        one_step_drift.stays(sampler, dims(sampler), ratio=frozen, seed=seed)
    judged(simulations(sampler), seed, share=1 - forms.SHARE if law.ships else 1.0)


def _check_without_law(sampler: Sampler, frozen: float | None, *, ships: bool) -> None:
    """Check a sampler without a stationary law by another law: the rule that it equals, its own law, or real-loop."""
    if frozen == 0:
        optimiser(sampler)
        return
    if ships:
        return
    if not linear.derive(sampler, 0.1, 1.0).linear:
        raise Broken(
            "limit_bias declares no stationary law, the sampler is not linear, and it ships no law of its own: nothing "
            "is shown of it (see plugins.checking.SamplerLaw)"
        )
    raise Skip("it declares no stationary law; real-loop tests its path")


def optimiser(sampler: Sampler) -> None:
    """Check that OPTIMISED steps at T = 1 with noisy gradients are those of the optimiser that it declares."""
    if type(sampler).zero_temperature is None:
        raise Broken("limit_bias declares an optimiser and zero_temperature does not say which")
    name, rule = zero_temperature.rule_of(sampler)
    task = GaussianTask(variance=0.5)
    h = np.full(OPTIMISED, safe_x(sampler, 0.2) / task.curvature())
    problem = task.build(streams(4), "cpu")
    path = zero_temperature.declared_path(sampler, rule, problem, problem.initial(), h, problem.batches(OPTIMISED))
    observed = path_of(sampler, task, trajectory(h, 1.0), 4)
    for k, theta in enumerate(path):
        gap = distance(observed[k], theta)
        if not gap < ROUNDING:
            raise Broken(f"at T = 1 step {k + 1} differs from {name!r} by {gap:.2g} (relative)")


def declared(sampler: Sampler, claimed: float) -> None:
    """Check that the claimed variance on N(0, 1) at T = 1 is that of the slow limit; its noise has one temperature."""
    try:
        limit = slow_limit(sampler)
    except Unsettled as why:
        raise Broken(f"no slow limit: {why}") from None
    variance = float(limit.density(GRID, 1.0) @ GRID**2)
    if not abs(variance - claimed) < DECLARED * claimed:
        raise Broken(
            f"as h -> 0, adaptation included, the variance on N(0, 1) is {variance:.5g}; {claimed:.5g} is declared "
            f"(limit_bias, or the variance of its SamplerLaw)"
        )
    for T in (0.5, 3.0):
        gap = np.abs(slow_limit(sampler, T).d / limit.d - 1).max()
        if not gap < 1e-6:
            raise Broken(f"at T = {T:g} its noise has another temperature than at T = 1: off by {gap:.2g} (relative)")


LAW = Law(
    12, "whole-law", check,
    "the scale of the noise, a preconditioner or an average that follows the gradient and biases the law, weights that "
    "are wrong or late, or a step that is not right where U is no quadratic; a bias by construction is declared",
)  # fmt: skip
