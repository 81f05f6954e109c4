"""Law 2: the harness's own loop gives the derived law; a Metropolis kernel leaves exact draws exact.

A sampler that is neither linear nor a Metropolis kernel is run until it is stationary: `stationary`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.conformance.experiment import Experiment, PValues, once
from harness.conformance.law import Broken, Law, Skip
from harness.conformance.laws import exact, stationary
from harness.conformance.linear import frozen

if TYPE_CHECKING:
    from harness.sampler import Sampler

LEVEL = 1e-3
"""Chance that a correct sampler fails once. A repeat with another seed must fail too."""

OPTIMISER = "an optimiser that is not linear: there is no law to hold its loop to"


def check(sampler: Sampler) -> None:
    """All p-values of all settings at LEVEL, by Bonferroni; what fails gets one repeat with a fresh seed."""
    for family in families(sampler):
        for experiment in family:
            if not fails(once(experiment, 1), len(family)):
                continue
            again = once(experiment, 2)
            if fails(again):
                name, p = min(again.items(), key=lambda item: item[1])
                raise Broken(f"{name} is wrong: p = {p:.2g}, after a failure with another seed ({experiment})")


def families(sampler: Sampler) -> list[Sequence[Experiment]]:
    """The experiments of a sampler; those that share one LEVEL stand together. Raises `Skip` where there are none."""
    sampler = frozen(sampler)
    known = exact.experiments(sampler)
    if known is not None:  # on a Gaussian the metric is constant, and on the quartic it is not
        return [known, stationary.experiments(sampler)[-2:]] if "metric" in sampler.needs else [known]
    if not sampler.limit_bias():
        raise Skip("not linear, and it declares no stationary law" if sampler.limit_bias() is None else OPTIMISER)
    return [stationary.experiments(sampler)]


def fails(found: PValues, experiments: int = 1) -> bool:
    """Whether one of these p-values is too small for one of so many experiments."""
    return min(found.values()) < LEVEL / (experiments * len(found))


LAW = Law(
    2, "real-loop", check,
    "noise that is used twice or shared, something remembered outside the state, a minibatch or step size of another "
    "step, (Metropolis) a wrong acceptance ratio, or (not linear) the scale of the noise, or a stationary law that is "
    "biased by construction and not declared in limit_bias",
    exemptible=False,
)  # fmt: skip
