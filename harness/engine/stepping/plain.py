"""Steps in plain torch, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.contracts.sampler import Sampler
from harness.engine.stepping.block import Advanced, Block, Stepper, check_calls, check_unchanged, drawn, split, stacked
from harness.engine.stepping.noise import Noise, StepNoise
from harness.engine.stepping.potential import Potential

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.sampler import State


class Plain(Stepper):
    """Steps that are executed in Python, without compiling anything."""

    mode = "plain"

    def make(self, *_: object) -> None:
        """Make nothing."""

    def advance(self, theta: Tensor, state: State, block: Block) -> Advanced:
        """Run the steps of a block. Positions are rebound and never written in place, so a draw does not change."""
        import torch

        sampler, potential = self.sampler, self.potential
        noise = StepNoise(block.slots)
        full, handed, numbers = potential.full, Potential(potential, sampler), Noise(noise)
        calls, full_calls = sampler.gradients_per_step, sampler.full_gradients_per_step
        # Each step gets memory of its own: through a view of the block a sampler could read the noise of later steps.
        unbind = torch.unbind_copy if len(block) > 1 else torch.unbind
        slots = [unbind(slot, 0) if slot.ndim else (slot,) * len(block) for slot in block.noise]
        values_of = list(zip(*slots, strict=True)) or [()] * len(block)
        batches = split(block.batches, len(block))
        weighted = type(sampler).log_weight is not Sampler.log_weight
        draws: list[Tensor] = []
        versions: list[int] = []
        log_weights: list[Tensor] = []
        like, dtype = theta, theta.dtype
        inputs = zip(_each(block.h), _each(block.T), values_of, batches, block.keep.tolist(), strict=True)
        # Every sampler pays for the time between two calls of `step`, so there is little of it, on purpose.
        for h, T, values, batch, kept in inputs:
            potential.batch = batch
            noise.start(values)
            theta, state = sampler.step(theta, state, handed, h, T, numbers)
            noise.finish()
            if block.adapt:
                state = sampler.adapt(state, h, T)
            if kept:
                draw = drawn(sampler, theta, state)
                draws.append(draw)
                versions.append(draw._version)  # noqa: SLF001 - torch counts writes in place, and has no public name for it
                weight = sampler.log_weight(state) if weighted else None
                if weight is not None:
                    log_weights.append(weight)
            if potential.calls != calls or full.calls != full_calls:
                check_calls(sampler, potential.take_counts())
            potential.calls = full.calls = 0
            if theta.dtype is not dtype:
                break
        check_unchanged(sampler, draws, versions)
        return Advanced(theta, state, *stacked(sampler, draws, log_weights, like))


def _each(column: Tensor) -> Sequence[Tensor]:
    """Return a number (B,) for each step; if all are equal, one tensor for all steps, which takes less time to make."""
    if column.device.type == "cpu" and bool((column == column[0]).all()):
        return (column[0].clone(),) * len(column)
    return column.unbind(0)
