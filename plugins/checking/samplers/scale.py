"""Law 4: c U at temperature c T is the same target, and in the declared units a sampler follows the same path on it."""

from __future__ import annotations

from dataclasses import fields, replace

from harness import Sampler
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import (
    TEMPERATURES,
    Broken,
    Law,
    distance,
    draws,
    roundings,
    trajectory,
    varying,
    walk,
    weights,
)

FACTORS = (0.2, 7.0, 2.0**-27, 2.0**27)
"""c; the last two, about 1e-8 and 1e8, take step sizes, temperatures and gradients past floors, ceilings and clips."""

CHAINS = 4
STEPS = 12


def check(sampler: Sampler) -> None:
    """Compare path and weights for small and large c, varying steps, stochastic gradients and T = 0.5, 1, 3."""
    plain = GaussianTask(variance=0.5)
    h = varying(sampler, plain, STEPS)
    for T in TEMPERATURES:
        first = walk(sampler, plain, trajectory(h, T), CHAINS)
        for c in FACTORS:
            other, factor = rescaled(sampler, c)
            scaled = walk(other, GaussianTask(variance=0.5, scale=c), trajectory(h * factor, c * T), CHAINS)
            for what, of in (("path", draws), ("weights", weights)):
                gap = distance(of(scaled), of(first))
                if not gap < 1e-7:
                    raise Broken(
                        f"c = {c:.3g}, T = {T:g}: within {STEPS} steps of h = {h[0] * factor:.3g} and less the {what} "
                        f"on cU at cT differ by {gap:.2g} (relative)",
                        roundings=roundings(gap, size=1 / min(c, 1.0)),
                    )


def rescaled(sampler: Sampler, c: float) -> tuple[Sampler, float]:
    """Return the sampler and the factor on h that give the same path on c U at temperature c T, from declared units."""
    powers = {field.name: field.metadata.get("unit", 0) for field in fields(sampler)}
    changed = {name: c**power * getattr(sampler, name) for name, power in powers.items() if power}
    return replace(sampler, **changed), float(c**sampler.step_unit)


LAW = Law(
    4, "scale", check,
    "a hyperparameter in units of U or its gradient without `unit`, a wrong `step_unit`, T missing somewhere, a clip, "
    "or a floor or ceiling of h or T",
)  # fmt: skip
