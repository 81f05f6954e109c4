"""Law 2: the harness's own loop gives the derived law, and a Metropolis kernel leaves exact draws exact.

A sampler that is neither linear nor a Metropolis kernel is tested by whole-law.
"""

from __future__ import annotations

import copy

from harness import Sampler
from plugins.checking.law import LEVEL, Broken, Law, Skip, frozen, streams, worst
from plugins.checking.samplers.exact import Experiment, PValues, experiments

GREY = 0.05
"""A p-value below GREY / (number of p-values) that does not fail is tested again with GROWTH times the chains."""

GROWTH = 4


def check(sampler: Sampler, seed: int = 1) -> None:
    """Check all p-values of all settings at LEVEL, half of it for each look; if they are grey, more chains decide."""
    family = experiments(frozen(sampler))
    if not family:
        raise Skip("not linear and not a Metropolis kernel: the law whole-law tests its loop")
    for experiment in family:
        p_values = once(experiment, seed)
        if grey(p_values, len(family)) and not fails(p_values, len(family)):
            p_values = once(more(experiment), seed + 1)
        if fails(p_values, len(family)):
            name, p = worst(p_values)
            raise Broken(f"{name} is wrong: p = {p:.2g} among {len(p_values) * len(family)} ({experiment})")


def once(experiment: Experiment, seed: int) -> PValues:
    """Return the p-values of one repeat; raise the `Broken` that it found in their place."""
    (p_values,) = experiment.p_values(streams(experiment.chains, seed))
    if isinstance(p_values, Exception):
        raise p_values
    return p_values


def fails(p_values: PValues, experiments: int) -> bool:
    """Return whether one of these p-values is too small for one look at one of `experiments` experiments."""
    return worst(p_values)[1] < LEVEL / 2 / (experiments * len(p_values))


def grey(p_values: PValues, experiments: int) -> bool:
    """Return whether more chains are to decide, if the p-values do not fail."""
    return worst(p_values)[1] < GREY / (experiments * len(p_values))


def more(experiment: Experiment) -> Experiment:
    """Return the same experiment with more chains."""
    again = copy.copy(experiment)
    again.chains = GROWTH * experiment.chains
    return again


LAW = Law(
    2, "real-loop", check,
    "noise that is used twice or shared, something remembered outside the state, a minibatch or step size of another "
    "step, or (Metropolis) a wrong acceptance ratio",
    exemptible=False,
)  # fmt: skip
