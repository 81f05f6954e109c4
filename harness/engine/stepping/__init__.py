"""The execution of a block of steps; the rest of the harness does not depend on how it is done.

The RunSpec names the mode: "plain" is one torch call after the other. "compiled" is, on a CPU, the whole block as one
function, or each step's update if the task is opaque or has `LARGE` parameters; on a GPU it is the whole step recorded
as a CUDA graph, or each step's update if a step of an opaque task uses all the data. "network" is "compiled" with the
network's forward and backward pass compiled within it; `Loop` asks the problem for that. All modes run the same lines
of sampler and task, and differ in the last bits.
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
    from harness.contracts.task import Task
    from harness.engine.stepping.block import Stepper
    from harness.engine.stepping.potential import CountingPotential


def stepper(
    mode: str, sampler: Sampler, potential: CountingPotential, task: Task, dim: int, device: str = "cpu"
) -> Stepper:
    """Return the stepper of a mode, for chains of a task, of `dim` parameters, on a device.

    A pass of an opaque task through all its data is not recorded. A network's goes through them in stretches: its graph
    would grow with the data, and a stretch keeps a GPU busy without one.

    Mode "traced", which only laws use, is "compiled" on a CPU, but with an update without generated code: torch runs
    what it has traced.
    """
    if mode == "plain":
        return Plain(sampler, potential)
    passes = sampler.full_gradients_per_step > 0 or task.batch_terms() == task.terms() > 1
    if device != "cpu" and not (task.opaque and passes):
        return Graph(sampler, potential, opaque=task.opaque)
    if by_update(dim, opaque=task.opaque):
        return Update(sampler, potential, "aot_eager" if mode == "traced" else "inductor")
    return Compiled(sampler, potential)
