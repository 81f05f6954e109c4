"""The execution of a block of steps; the rest of the harness does not depend on how it is done.

The RunSpec names the mode: "plain" is one torch call after the other. "compiled" is, on a CPU, the whole block as one
function, or each step's update if the task is opaque or has `LARGE` parameters; on a GPU it is the whole step recorded
as a CUDA graph. "network" is "compiled" with the network's forward and backward pass compiled within it; `Loop` asks
the problem for that. All modes run the same lines of sampler and task, and differ in the last bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from harness.engine.stepping.compiled import Compiled
from harness.engine.stepping.execution_mode import LARGE
from harness.engine.stepping.graph import Graph
from harness.engine.stepping.plain import Plain
from harness.engine.stepping.update import Update

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.sampler import Sampler, State
    from harness.engine.stepping.block import Advanced, Block
    from harness.engine.stepping.potential import CountingPotential


class Stepper(Protocol):
    """A mode of execution."""

    mode: str
    """How its steps are executed: "plain" or "compiled"."""

    in_place: bool
    """Whether the results overwrite theta and state."""

    def make(self, sampler: Sampler, potential: CountingPotential, theta: Tensor, state: State, block: Block) -> None:
        """Make the code for blocks like this one, before the first step. Nothing that is passed changes.

        Raise `UncompiledError` if it cannot be made: no step is then executed in another mode.
        """

    def advance(
        self, sampler: Sampler, potential: CountingPotential, theta: Tensor, state: State, block: Block
    ) -> Advanced:
        """Run the steps of a block: a pure function of its arguments, which stay unchanged unless `in_place`.

        Raise `PluginError` if a step makes another number of gradient calls than declared, or returns another kind of
        position or state. The potential's counts are zero afterwards.
        """


def stepper(mode: str, dim: int, device: str = "cpu", *, opaque: bool = False) -> Stepper:
    """Return the stepper of a mode, for one loop over chains of `dim` parameters on a device; `opaque` as in `Task`.

    Mode "traced", which only laws use, is "compiled" on a CPU, but with an update without generated code: torch runs
    what it has traced.
    """
    if mode == "plain":
        return Plain()
    if device != "cpu":
        return Graph()
    if opaque or dim >= LARGE:
        return Update("aot_eager" if mode == "traced" else "inductor")
    return Compiled()
