"""Experiments: what the statistical law does with random numbers, again and again if need be, and what came out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from harness.contracts.randomness import Streams
from plugins.laws.law import Broken, Skip, streams

PValues: TypeAlias = dict[str, float]
"""p-values by the name of what would be wrong."""


class Experiment(Protocol):
    """A sampler at one setting; what does not depend on random numbers is worked out once."""

    chains: int
    """Chains of one repeat."""

    def p_values(self, streams: Sequence[Streams]) -> list[PValues | Broken | Skip]:
        """What each repeat finds: every `chains` streams in turn make one, and none knows of the others."""


def once(experiment: Experiment, seed: int) -> PValues:
    """The p-values of one repeat; raises what it found instead of them."""
    (found,) = experiment.p_values(streams(experiment.chains, seed))
    if isinstance(found, Exception):
        raise found
    return found
