"""How a block of steps is executed; nothing else in the harness knows.

The mode stands in the RunSpec, and nothing else but the number of parameters has a say: "plain" is one torch call
after the other, "compiled" the whole block as one function, or from `LARGE` parameters on each step's update, on a GPU
within a graph of the whole step. All run the same lines of sampler and task, and differ in the last bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from harness.stepping.block import Advanced, Block, cut, split
from harness.stepping.compiled import Compiled
from harness.stepping.graph import Graph
from harness.stepping.modes import LARGE
from harness.stepping.noise import DirectNoise, StepNoise
from harness.stepping.plain import Plain, advance
from harness.stepping.potential import BoundPotential, CountingPotential
from harness.stepping.update import Update

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
    "cut",
    "split",
    "stepper",
]  # fmt: skip


class Stepper(Protocol):
    """A mode of execution."""

    counts: bool
    """Whether every gradient passes through the potential that it is given; else only the probe's step is counted."""

    in_place: bool
    """Whether theta and state themselves become what is returned."""

    compiling: float
    """Seconds spent so far on making code, and not on steps."""

    def advance(
        self, sampler: Sampler, potential: BoundPotential, theta: Tensor, state: State, block: Block
    ) -> Advanced:
        """Run the steps of a block: a pure function of its arguments, which it leaves as they are unless `in_place`."""


def stepper(mode: str, dim: int, device: str = "cpu", *, opaque: bool = False) -> Stepper:
    """The stepper of a mode, for one loop over chains of `dim` parameters on a device; `opaque` as in `Problem`."""
    if mode == "plain":
        return Plain()
    if not opaque and dim < LARGE:
        return Compiled()
    return Update() if device == "cpu" else Graph()
