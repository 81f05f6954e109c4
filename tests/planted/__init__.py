"""Samplers with one planted bug each, and the laws of `bench check` that find them.

A bug is a class of a few lines, declared where it stands:

    @planted("noise", "derived-law")
    class NoiseTimesRootTwo(Plain):
        '''The noise is sqrt(2) times too wide.'''

that is its kind and the laws that find it, the cheapest first. `says` is a part of what the first law has to say; a bug
that is found by an error of the harness, and not by the law's own comparison, must have it. A bug that no law finds yet
has `awaits`, the law that should; one that no law can find has `unseen`, the reason and what else finds it; one that
leaves the sampler's law and cost as they are has `right`, the reason.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from harness import Sampler

KINDS = (
    "noise", "drift", "clipping", "boxes", "dimension", "chain count", "step count", "temperature", "step size",
    "precision", "averaging", "greed", "weights", "adaptation", "momentum", "HMC's energy", "memory between runs",
    "environment", "cost", "truth", "declaration",
)  # fmt: skip


@dataclass(frozen=True)
class Bug:
    """A planted bug: its sampler, its kind, and by which laws it is found, or why not."""

    sampler: type[Sampler]
    kind: str
    laws: tuple[str, ...]
    awaits: str
    unseen: str
    right: str
    says: str

    @property
    def name(self) -> str:
        return self.sampler.__name__

    @property
    def what(self) -> str:
        """What is wrong, in a line."""
        return " ".join(inspect.cleandoc(self.sampler.__doc__ or "").split("\n\n")[0].split())

    @property
    def base(self) -> str:
        """The right sampler that it was made from."""
        return next(cls.__name__ for cls in self.sampler.__mro__[1:] if cls.__module__.startswith("plugins."))


BUGS: list[Bug] = []


def planted(kind, *laws, awaits="", unseen="", right="", says=""):
    """Declare a class to be a planted bug."""
    assert kind in KINDS
    assert bool(laws) + bool(awaits) + bool(unseen) + bool(right) == 1, "found, awaiting a law, out of sight, or right"

    def declare(sampler):
        assert "__doc__" in vars(sampler), f"{sampler.__name__} has no line that says what is wrong"
        BUGS.append(Bug(sampler, kind, laws, awaits, unseen, right, says))
        return sampler

    return declare
