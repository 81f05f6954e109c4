"""Law 4: U -> c U at temperature c T is the same target, and `rescale` says how to walk the same path on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.conformance.gaussian import GaussianTask
from harness.conformance.law import TEMPERATURES, Broken, Law, distance, path_of, trajectory, varying

if TYPE_CHECKING:
    from harness.sampler import Sampler

FACTORS = (0.2, 7.0)
CHAINS = 4
STEPS = 12


def check(sampler: Sampler) -> None:
    """The same path, for c below and above 1, under varying step sizes, stochastic gradients and T = 0.5, 1, 3."""
    plain = GaussianTask(variance=0.5)
    h = varying(sampler, plain, STEPS)
    for T in TEMPERATURES:
        expected = path_of(sampler, plain, trajectory(h, T), CHAINS)
        for c in FACTORS:
            other, factor = sampler.rescale(c)
            scaled = GaussianTask(variance=0.5, scale=c)
            gap = distance(path_of(other, scaled, trajectory(h * factor, c * T), CHAINS), expected)
            if not gap < 1e-7:
                raise Broken(
                    f"c = {c:g}, T = {T:g}: within {STEPS} steps the path on cU at cT is off by {gap:.2g} (relative)"
                )


LAW = Law(
    4, "scale", check,
    "a hyperparameter in units of U or its gradient that `rescale` leaves alone, or T missing somewhere",
)  # fmt: skip
