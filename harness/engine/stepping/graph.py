"""Steps on a GPU as CUDA graphs, with gradient, update and checks, and without Python in between.

A step of a network is a thousand kernels of a few microseconds each, a step of a density a few. If Python launches them
one by one, the GPU waits for it. A block is cut into parts of at most `PART` steps. The inputs of a part that differ
from others (step sizes, temperatures, noise and minibatches, which are drawn as in other modes) are copied into memory
with fixed addresses. The first steps of each kind are executed as by `Update`, on a stream of their own, so that
everything is compiled and allocated. Then one part is recorded, and from then on it is replayed. A minibatch of another
size, the short one at the end of an epoch, is another kind. A minibatch in the memory of the CPU is copied to the GPU
first.

A recorded step must not wait for the GPU, copy between CPU and GPU, or depend on a value in Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.engine.stepping.block import Advanced, Block
from harness.engine.stepping.making import kind_of, making, reasons
from harness.engine.stepping.update import Update
from harness.system.errors import PluginError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from harness.contracts.sampler import Sampler, State
    from harness.engine.stepping.potential import CountingPotential

WARM = 3
"""Number of steps of each kind before one is recorded, in which cuDNN and autograd settle on what they will do."""

PART = 50
"""Largest number of steps in a graph: a launch is then a small share of their time."""


class Graph(Update):
    """Parts of blocks as replays of CUDA graphs, one graph for each kind."""

    counts = False

    def __init__(self, sampler: Sampler, potential: CountingPotential, *, opaque: bool = True) -> None:
        super().__init__(sampler, potential, opaque=opaque)
        self._warm: Counter[Hashable] = Counter()
        self._memory: dict[Hashable, list[Tensor]] = {}
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Advanced]] = {}
        self._stream: torch.cuda.Stream | None = None
        self._pool: Any = None

    def advance(self, theta: Tensor, state: State, block: Block) -> Advanced:
        """Run the steps of a block. The results overwrite theta and state."""
        import torch

        draws, weights, lost = [], [], None
        for start, part in _parts(block):
            done = self._advance_part(theta, state, part)
            assert done.lost is not None
            at = done.lost.where(done.lost == 0, done.lost + start)
            lost = at if lost is None else lost.where(lost > 0, at)
            draws.append(done.draws)
            weights += [] if done.log_weights is None else [done.log_weights]
        if len(draws) == 1:
            return Advanced(theta, state, draws[0], weights[0] if weights else None, lost)
        return Advanced(theta, state, torch.cat(draws), torch.cat(weights) if weights else None, lost)

    def _advance_part(self, theta: Tensor, state: State, part: Block) -> Advanced:
        """Run the steps of a part; its draws are copies."""
        import numpy as np
        import torch

        batches = {name: leaf.to(theta.device, non_blocking=True) for name, leaf in part.batches.items()}
        # A single step is recorded with its draw or without it; more steps with all of theirs.
        kept = part.keep if len(part) == 1 else np.ones(len(part), dtype=bool)
        shapes = tuple((name, leaf.shape) for name, leaf in batches.items())
        kind = (kind_of(part), shapes, len(part), bool(kept[0]))
        inputs = [part.h, part.T, *part.noise, *batches.values()]
        if kind not in self._memory:
            self._memory[kind] = [value.clone(memory_format=torch.contiguous_format) for value in inputs]
        memory = self._memory[kind]
        for leaf, value in zip(memory, inputs, strict=True):
            leaf.copy_(value, non_blocking=True)
        if kind not in self._graphs:
            h, T, *rest = memory
            noise, batch = rest[: len(part.noise)], dict(zip(batches, rest[len(part.noise) :], strict=True))
            fixed = replace(part, h=h, T=T, noise=noise, batches=batch, keep=kept)
            if self._warm[kind] < WARM:
                self._warm[kind] += len(part)
                return _chosen(self._executed(theta, state, fixed), part)
            self._graphs[kind] = self._recorded(theta, state, fixed)
        graph, done = self._graphs[kind]
        graph.replay()
        return _chosen(done, part)

    def _executed(self, theta: Tensor, state: State, part: Block) -> Advanced:
        import torch

        if self._stream is None:
            self._stream = torch.cuda.Stream()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            done = super().advance(theta, state, part)
        torch.cuda.current_stream().wait_stream(self._stream)
        return done

    def _recorded(self, theta: Tensor, state: State, part: Block) -> tuple[torch.cuda.CUDAGraph, Advanced]:
        import torch

        graph = torch.cuda.CUDAGraph()
        with making(self.sampler, _unrecorded), torch.cuda.graph(graph, self._pool, self._stream):
            done = super().advance(theta, state, part)
        self._pool = graph.pool()  # what a graph leaves is held, and all else is free for the next one
        return graph, done


def _parts(block: Block) -> Iterator[tuple[int, Block]]:
    """Yield the parts of a block, each with the number of the steps before it."""
    for start in range(0, len(block), PART):
        at = slice(start, start + PART)
        noise = [slot[at] if slot.ndim else slot for slot in block.noise]
        batches = {name: leaf[at] for name, leaf in block.batches.items()}
        yield start, replace(block, h=block.h[at], T=block.T[at], noise=noise, batches=batches, keep=block.keep[at])


def _chosen(done: Advanced, part: Block) -> Advanced:
    """Return a copy of the results of a part, with the draws and log weights that are kept."""
    import numpy as np
    import torch

    def kept(leaf: Tensor) -> Tensor:
        rows = [leaf[k] for k in np.flatnonzero(part.keep)]
        return leaf.clone() if len(rows) == len(leaf) else torch.stack(rows) if rows else leaf[:0].clone()

    assert done.lost is not None
    weights = None if done.log_weights is None else kept(done.log_weights)
    return replace(done, draws=kept(done.draws), log_weights=weights, lost=done.lost.clone())


def _unrecorded(sampler: Sampler, error: Exception) -> PluginError:
    return PluginError(
        f"{type(sampler).__name__} was not recorded as a CUDA graph; --set run.compile=plain runs it step by step. "
        f"The reason: {reasons(error)}"
    )
