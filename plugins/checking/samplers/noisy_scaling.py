"""Law 18: as h -> 0 the noise of the gradient leaves the stationary law as it is.

A step size, preconditioner or clip that uses the gradient of the same minibatch depends on its noise, and the mean of
a product of the two is not the product of the means: a bias of the stationary law remains however small h is. Where
neither does, gradient noise of variance V adds h V / 2 to the temperature, which vanishes with h.

The law is held on N(0, I) at T = 1, with V = 1 (a minibatch of half of the terms of a normal mean) and V = 9 (a tenth
of them). If a step is linear, its variance as h -> 0 follows from its code. Otherwise chains start at exact draws and
run at h and, on the same Brownian path, at h/2 and without noise: the change d of the variance by the noise becomes
2 d(h/2) - d(h), for an h at which the two differ by little. A sampler that shows a bias by design states its variances
(`SamplerLaw.noisy_variance`), which are on its page, and is held to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness import Sampler, linear
from harness.engine import Loop
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import (
    LEVEL,
    Array,
    Broken,
    Law,
    Skip,
    draws,
    finish,
    safe_x,
    streams,
    trajectory,
    two_sided,
    weights,
)
from plugins.checking.sampler_law import law_of
from plugins.checking.samplers import whole

NOISE = (1.0, 9.0)
"""Variances V of a coordinate of the gradient, in units of lambda T."""

SHARE, SMALLEST = 0.025, 0.025 / 64
"""h as a share of the stability limit at first, and at the least: a quarter is tried while two steps differ by much."""

CHANGE = 0.1
"""Largest difference of the changes at h and at h/2."""

LEFT = 1.5
"""The part of it that is allowed: of a term in h^1/2, as a step in units of sqrt(h) has one, 1.42 times it is left."""

STATED = 0.08
"""Largest difference of a variance from the one that is stated."""

EXACT = 1e-5
"""The same share for a linear step."""

CHAINS, DIM = 256, 4
SETTLING, KEPT = 4, 10
"""Lengths of the burn-in and of what is kept, in units of 1 / (2 share) steps, the relaxation time of sgld."""

SLOWER = 4
"""How many times longer they are where h multiplies a gradient over its size, which noise makes larger."""


@dataclass(frozen=True)
class Measured:
    """What gradient noise of variance `noise` does as h -> 0, on N(0, 1) at T = 1.

    variance   of the draws
    change     its difference from the variance with exact gradients, with its standard error
    left       what the step sizes leave of that
    """

    noise: float
    variance: float
    change: float
    error: float
    left: float


def measure(sampler: Sampler, noise: float, seed: int = 1) -> Measured:
    """Return the variance of a sampler's draws as h -> 0. Raise `Broken` if a chain diverges."""
    if not sampler.adaptive and not sampler.needs - linear.QuadraticPotential.provides:
        h = safe_x(sampler, EXACT)
        known = [[linear.stationary_variance(sampler, x, 1.0, V) for V in (noise, 0.0)] for x in (h, h / 2)]
        (coarse, still), (fine, resting) = known
        if coarse is not None and still is not None and fine is not None and resting is not None:
            variance = 2 * fine - coarse
            return Measured(noise, variance, variance - (2 * resting - still), 0.0, 1e-4)
    share = SHARE
    while True:
        coarse_each, fine_each = _variances(sampler, noise, share, seed)
        still_each, resting_each = _variances(sampler, 0.0, share, seed)
        left = (fine_each - resting_each) - (coarse_each - still_each)
        if abs(float(left.mean())) < CHANGE or share <= SMALLEST:
            break
        share /= 4
    variances = 2 * fine_each - coarse_each
    changes = variances - (2 * resting_each - still_each)
    error = float(changes.std(ddof=1)) / np.sqrt(CHAINS)
    return Measured(noise, float(variances.mean()), float(changes.mean()), error, LEFT * abs(float(left.mean())))


def _variances(sampler: Sampler, noise: float, share: float, seed: int) -> tuple[Array, Array]:
    """Return the weighted mean square (C,) of the draws of each chain, at h and at h/2.

    The weights of all chains sum to 1 together, so a chain whose weights are large counts for more. Its number is that
    mean plus its part of the error of the ratio, as in the delta method.
    """
    unit = round(1 / (2 * share)) * (SLOWER if sampler.step_unit == 0 else 1)
    h = np.full((SETTLING + KEPT) * unit, safe_x(sampler, share, otherwise=0.5))
    path = trajectory(h, 1.0, SETTLING * unit)
    task = GaussianTask(curvatures=(1.0,) * DIM, variance=noise)
    means = []
    for substeps in (1, 2):
        running = finish(Loop(task, sampler, path.divided(substeps), streams(CHAINS, seed), CHAINS))
        (run,) = running.runs
        if run.divergence is not None:
            raise Broken(f"with gradient noise of variance {noise:g} a chain goes to infinity at h = {h[0]:g}")
        squares, shares = draws(running).square().mean(2), weights(running) * CHAINS
        mean = (squares * shares).sum() / CHAINS
        means.append((mean + ((squares - mean) * shares).sum(0)).numpy())
    return means[0], means[1]


def check(sampler: Sampler) -> None:
    """Check the variance at both levels of noise against the one that is claimed for exact gradients."""
    limit = sampler.limit_bias()
    if not limit:
        raise Skip("it declares no stationary law" if limit is None else "it draws no noise")
    if not sampler.gradients_per_step:
        raise Skip("its gradients are of all the data")
    if whole.goes_by_energy(sampler) or whole.is_tested(sampler):
        raise Skip("it goes by the energy of the minibatch, whose noise no step size removes")
    stated = law_of(sampler).noisy_variance
    if stated and sampler != type(sampler)():
        raise Skip("it states its variances with noisy gradients at its defaults only")
    for one in (measure(sampler, noise) for noise in NOISE):
        if stated:
            if not abs(one.variance - stated[one.noise]) < STATED:
                raise Broken(
                    f"on N(0, 1) as h -> 0 its variance is {one.variance:.3g} with gradient noise of variance "
                    f"{one.noise:g}, and {stated[one.noise]:g} is declared (noisy_variance of its SamplerLaw)"
                )
            continue
        p = two_sided(max(abs(one.change) - one.left, 0.0), one.error, CHAINS - 1)
        if not p * len(NOISE) >= LEVEL:
            raise Broken(
                f"on N(0, 1) as h -> 0, gradient noise of variance {one.noise:g} changes the variance by "
                f"{one.change:.3g} +- {2 * one.error + one.left:.1g}, to {one.variance:.3g}: p = {p:.2g} "
                f"among {len(NOISE)}"
            )


LAW = Law(
    18, "noisy-scaling", check,
    "a step size, preconditioner or clip that uses the gradient of the same minibatch, whose noise it multiplies",
)  # fmt: skip
