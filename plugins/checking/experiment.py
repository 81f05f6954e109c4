"""Experiments: what the law real-loop does with random numbers, as often as needed, and what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from harness import Streams
from plugins.checking.law import Broken, Skip, streams

PValues: TypeAlias = dict[str, float]
"""p-values by the name of the property that would be wrong."""


class Experiment(Protocol):
    """A sampler at one setting. Everything that does not depend on random numbers is computed once."""

    chains: int
    """The number of chains of one repeat."""

    def p_values(self, streams: Sequence[Streams]) -> list[PValues | Broken | Skip]:
        """Return the result of each repeat: `chains` streams in turn make one, independent of the others."""


def once(experiment: Experiment, seed: int) -> PValues:
    """Return the p-values of one repeat; raise the `Broken` or `Skip` that it found in their place."""
    (found,) = experiment.p_values(streams(experiment.chains, seed))
    if isinstance(found, Exception):
        raise found
    return found
