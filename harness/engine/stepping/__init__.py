"""The execution of a block of steps; the rest of the harness does not depend on how it is done.

The RunSpec names the mode: "plain" is one torch call after the other. "compiled" is, on a CPU, the whole block as one
function, or each step's update if the task is opaque or has `LARGE` parameters; on a GPU it is the whole step recorded
as a CUDA graph. "network" is "compiled" with the network's forward and backward pass compiled within it; `Loop` asks
the problem for that. All modes run the same lines of sampler and task, and differ in the last bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.engine.stepping.compiled import Compiled
from harness.engine.stepping.execution_mode import by_update
from harness.engine.stepping.graph import Graph
from harness.engine.stepping.plain import Plain
from harness.engine.stepping.update import Update

if TYPE_CHECKING:
    from harness.contracts.sampler import Sampler
    from harness.engine.stepping.block import Stepper
    from harness.engine.stepping.potential import CountingPotential


def stepper(
    mode: str, sampler: Sampler, potential: CountingPotential, dim: int, device: str = "cpu", *, opaque: bool = False
) -> Stepper:
    """Return the stepper of a mode, for chains of `dim` parameters on a device; `opaque` as in `Task`.

    Mode "traced", which only laws use, is "compiled" on a CPU, but with an update without generated code: torch runs
    what it has traced.
    """
    if mode == "plain":
        return Plain(sampler, potential)
    if device != "cpu":
        return Graph(sampler, potential, opaque=opaque)
    if by_update(dim, opaque=opaque):
        return Update(sampler, potential, "aot_eager" if mode == "traced" else "inductor")
    return Compiled(sampler, potential)
