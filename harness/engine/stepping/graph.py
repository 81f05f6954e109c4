"""One step on a GPU as one CUDA graph, with gradient and update, and without Python in between.

A step of a network is a thousand kernels of a few microseconds each. If Python launches them one by one, the GPU waits
for it. Each step copies the inputs that differ (step size, temperature, noise and minibatch, which are drawn as in
other modes) into memory with fixed addresses. The first steps of each kind are executed as by `Update`, on a stream of
their own, so that everything is compiled and allocated. Then one step is recorded, and from then on it is replayed. A
minibatch of another size, the short one at the end of an epoch, is another kind. A minibatch in the memory of the CPU
is copied to the GPU first.

A recorded step must not wait for the GPU, copy between CPU and GPU, or depend on a value in Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from harness.engine.stepping.block import Block
from harness.engine.stepping.making import kind_of, making, reasons
from harness.engine.stepping.update import Update
from harness.system.errors import PluginError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from harness.contracts.sampler import Sampler, State
    from harness.contracts.task import Batch
    from harness.engine.stepping.potential import CountingPotential

WARM = 3
"""Number of steps of each kind before one is recorded, in which cuDNN and autograd settle on what they will do."""


class Graph(Update):
    """Steps as replays of CUDA graphs, one graph for each kind of step."""

    counts = False

    def __init__(self, sampler: Sampler, potential: CountingPotential) -> None:
        super().__init__(sampler, potential)
        self._warm: Counter[Hashable] = Counter()
        self._memory: dict[Hashable, list[Tensor]] = {}
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._stream: torch.cuda.Stream | None = None
        self._pool: Any = None

    def _step(
        self, batch: Batch | None, theta: Tensor, state: State, block: Block, now: tuple[Tensor, Tensor, list[Tensor]]
    ) -> None:
        import torch

        batch = {name: leaf.to(theta.device, non_blocking=True) for name, leaf in (batch or {}).items()}
        kind = (kind_of(block), tuple((name, leaf.shape) for name, leaf in batch.items()))
        inputs = [now[0], now[1], *now[2], *batch.values()]
        if kind not in self._memory:
            self._memory[kind] = [value.clone(memory_format=torch.contiguous_format) for value in inputs]
        memory = self._memory[kind]
        for leaf, value in zip(memory, inputs, strict=True):
            leaf.copy_(value, non_blocking=True)
        if kind in self._graphs:
            self._graphs[kind].replay()
            return
        h, T, *rest = memory
        noise, places = rest[: len(now[2])], dict(zip(batch, rest[len(now[2]) :], strict=True))
        if self._stream is None:
            self._stream = torch.cuda.Stream()
        if self._warm[kind] < WARM:
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                super()._step(places or None, theta, state, block, (h, T, noise))
            torch.cuda.current_stream().wait_stream(self._stream)
            self._warm[kind] += 1
            return
        graph = torch.cuda.CUDAGraph()
        with making(self.sampler, _unrecorded), torch.cuda.graph(graph, self._pool, self._stream):
            super()._step(places or None, theta, state, block, (h, T, noise))
        self._pool = graph.pool()  # no step's memory outlives it, so all graphs share one pool
        self._graphs[kind] = graph
        graph.replay()


def _unrecorded(sampler: Sampler, error: Exception) -> PluginError:
    return PluginError(
        f"{type(sampler).__name__} was not recorded as a CUDA graph; --set run.compile=plain runs it step by step. "
        f"The reason: {reasons(error)}"
    )
