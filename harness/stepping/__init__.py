"""How a block of steps is executed; nothing else in the harness knows.

The mode stands in the RunSpec, and nothing else has a say: "plain" is one torch call after the other, "compiled" the
whole block as one function. Both run the same lines of sampler and task, and differ in the last bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from harness.stepping.block import Advanced, Block, split
from harness.stepping.compiled import Compiled
from harness.stepping.noise import DirectNoise, StepNoise
from harness.stepping.plain import Plain, advance
from harness.stepping.potential import BoundPotential, CountingPotential

if TYPE_CHECKING:
    from torch import Tensor

    from harness.sampler import Sampler, State

__all__ = [
    "Advanced",
    "Block",
    "BoundPotential",
    "CountingPotential",
    "DirectNoise",
    "StepNoise",
    "Stepper",
    "advance",
    "split",
    "stepper",
]  # fmt: skip


class Stepper(Protocol):
    """A mode of execution."""

    counts: bool
    """Whether every gradient passes through the potential that it is given; else only the probe's step is counted."""

    compiling: float
    """Seconds spent so far on making code, and not on steps."""

    def advance(
        self, sampler: Sampler, potential: BoundPotential, theta: Tensor, state: State, block: Block
    ) -> Advanced:
        """Run the steps of a block: a pure function of its arguments, which it leaves as they are."""


def stepper(mode: str) -> Stepper:
    """The stepper of a mode, for one loop."""
    modes: dict[str, type[Stepper]] = {"plain": Plain, "compiled": Compiled}
    return modes[mode]()
