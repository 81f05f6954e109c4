"""Law 2: the harness's own loop gives the derived law; a Metropolis kernel leaves exact draws exact.

What is neither is held by the whole law.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.conformance.experiment import Experiment, PValues, once
from harness.conformance.law import Broken, Law, Skip
from harness.conformance.laws import exact
from harness.conformance.linear import frozen

if TYPE_CHECKING:
    from harness.sampler import Sampler

LEVEL = 1e-3
"""Chance that a correct sampler fails once. A repeat with another seed must fail too."""


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
    if known is None:
        raise Skip("not linear and no Metropolis kernel: its loop is held by the law whole-law")
    return [known]


def fails(found: PValues, experiments: int = 1) -> bool:
    """Whether one of these p-values is too small for one of so many experiments."""
    return min(found.values()) < LEVEL / (experiments * len(found))


LAW = Law(
    2, "real-loop", check,
    "noise that is used twice or shared, something remembered outside the state, a minibatch or step size of another "
    "step, or (Metropolis) a wrong acceptance ratio",
    exemptible=False,
)  # fmt: skip
