"""Law 2: the harness's own loop gives the derived law; a Metropolis kernel leaves exact draws exact.

What is neither is held by the whole law.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.engine.linear import frozen
from plugins.laws.experiment import Experiment, PValues, once
from plugins.laws.law import LEVEL, Broken, Law, Skip, worst
from plugins.laws.samplers import exact

if TYPE_CHECKING:
    from harness.contracts.sampler import Sampler

GREY = 0.05
"""Times 1 / (number of p-values): what is below and does not fail is looked at again, with GROWTH times the chains."""

GROWTH = 4


def check(sampler: Sampler, seed: int = 1) -> None:
    """All p-values of all settings at LEVEL, half of it for each look; where they are grey, more chains decide."""
    for family in families(sampler):
        for experiment in family:
            found = once(experiment, seed)
            if grey(found, len(family)) and not fails(found, len(family)):
                found = once(more(experiment), seed + 1)
            if fails(found, len(family)):
                name, p = worst(found)
                raise Broken(f"{name} is wrong: p = {p:.2g} among {len(found) * len(family)} ({experiment})")


def families(sampler: Sampler) -> list[Sequence[Experiment]]:
    """The experiments of a sampler; those that share one LEVEL stand together. Raises `Skip` where there are none."""
    sampler = frozen(sampler)
    known = exact.experiments(sampler)
    if known is None:
        raise Skip("not linear and not a Metropolis kernel: the law whole-law tests its loop")
    return [known]


def fails(found: PValues, experiments: int) -> bool:
    """Whether one of these p-values is too small for one look at one of so many experiments."""
    return worst(found)[1] < LEVEL / 2 / (experiments * len(found))


def grey(found: PValues, experiments: int) -> bool:
    """Whether more chains are to decide, if it does not fail."""
    return worst(found)[1] < GREY / (experiments * len(found))


def more(experiment: Experiment) -> Experiment:
    """The same with more chains."""
    again = copy.copy(experiment)
    again.chains = GROWTH * experiment.chains
    return again


LAW = Law(
    2, "real-loop", check,
    "noise that is used twice or shared, something remembered outside the state, a minibatch or step size of another "
    "step, or (Metropolis) a wrong acceptance ratio",
    exemptible=False,
)  # fmt: skip
