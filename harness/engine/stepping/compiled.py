"""A whole block of steps as one function in C++ (see `native`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.engine.stepping.block import Advanced, Block, Stepper, check_calls, check_returned, check_weights, drawn
from harness.engine.stepping.making import kind_of, making
from harness.engine.stepping.noise import Noise, StepNoise
from harness.engine.stepping.potential import CountingPotential, Potential

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.sampler import Sampler, State
    from harness.contracts.task import Batch
    from harness.engine.stepping.native import Native, Step


class Compiled(Stepper):
    """Blocks as compiled functions: one for each kind of block of a run."""

    mode = "compiled"

    def make(self, theta: Tensor, state: State, block: Block) -> None:
        """Make the function for blocks like this one."""
        from harness.engine.stepping.native import Native

        with making(self.sampler):  # a plugin may raise anything that it raises only when it is recorded
            self._functions[kind_of(block)] = Native(_step(self.sampler, self.potential, block), theta, state, block)

    def advance(self, theta: Tensor, state: State, block: Block) -> Advanced:
        """Run the steps of a block."""
        native: Native = self._functions[kind_of(block)]
        return native.advance(theta, state, block, self.sampler.particles * theta.shape[1])


def _step(sampler: Sampler, potential: CountingPotential, block: Block) -> Step:
    """Return a step of this kind of block, with its checks, from which code is made."""
    slots, adapt = block.slots, block.adapt

    def step(
        theta: Tensor, state: State, h: Tensor, T: Tensor, values: Sequence[Tensor], batch: Batch
    ) -> tuple[Tensor, State, Tensor, Tensor | None]:
        like, was = theta, state
        noise = StepNoise(slots)
        noise.start(values)
        asked = potential.on(batch or None, theta.shape)
        theta, state = sampler.step(theta, dict(state), Potential(asked, sampler), h, T, Noise(noise))
        noise.finish()
        if adapt:
            state = sampler.adapt(state, h, T)
        weight = sampler.log_weight(state)
        if weight is not None:
            check_weights(sampler, weight, like.shape[:1])
        # The checks run while the code is made: what was traced is what every step does, whatever Python would do
        # later.
        check_calls(sampler, asked.take_counts())
        check_returned(sampler, theta, state, like, was)
        return theta, state, drawn(sampler, theta, state), weight

    return step
