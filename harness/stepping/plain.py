"""Plain torch, one step after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.sampler import Sampler
from harness.stepping.block import Advanced, Block, split
from harness.stepping.noise import StepNoise

if TYPE_CHECKING:
    from torch import Tensor

    from harness.sampler import State
    from harness.stepping.potential import BoundPotential


class Plain:
    """Steps in Python. Nothing is compiled."""

    counts = True
    in_place = False
    compiling = 0.0

    def advance(
        self, sampler: Sampler, potential: BoundPotential, theta: Tensor, state: State, block: Block
    ) -> Advanced:
        """Run the steps of a block."""
        return advance(sampler, potential, theta, state, block)


def advance(sampler: Sampler, potential: BoundPotential, theta: Tensor, state: State, block: Block) -> Advanced:
    """Run the steps of a block. Positions are rebound, never written in place, so a draw stays what it was."""
    import torch

    noise = StepNoise(block.slots)
    values = [slot.contiguous().unbind(0) if slot.ndim else (slot,) * len(block) for slot in block.noise]
    drawn = list(zip(*values, strict=True)) or [()] * len(block)
    batches = split(block.batches, len(block)) if block.batches else None
    weighted = type(sampler).log_weight is not Sampler.log_weight
    keep = block.keep.tolist()
    draws: list[Tensor] = []
    log_weights: list[Tensor] = []
    potential.bind(None)
    # What stands between two calls of `step` is time that every sampler pays for: it is little, on purpose.
    for k, (h, T) in enumerate(zip(block.h.unbind(0), block.T.unbind(0), strict=True)):
        if batches is not None:
            potential.bind(batches[k])
        noise.start(drawn[k])
        theta, state = sampler.step(theta, state, potential, h, T, noise)
        noise.finish()
        if block.adapt:
            state = sampler.adapt(state, h, T)
        if keep[k]:
            draws.append(theta)
            weight = sampler.log_weight(state) if weighted else None
            if weight is not None:
                log_weights.append(weight)
    kept = torch.stack(draws) if draws else theta.new_empty((0, *theta.shape))
    return Advanced(theta, state, kept, torch.stack(log_weights) if log_weights else None)
