"""A whole block of steps as one function in C++ (see `native`), if the step can be written as one.

If it cannot, or no C++ compiler works, the steps are executed one by one, and `why_not` is the reason.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.engine.stepping.block import Advanced, Block, check_calls, check_returned, check_weights, drawn
from harness.engine.stepping.making import kind_of
from harness.engine.stepping.noise import Noise, StepNoise
from harness.engine.stepping.plain import advance
from harness.engine.stepping.potential import CountingPotential, Potential
from harness.system.errors import BenchError
from harness.system.memory import lacks_memory

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.sampler import Sampler, State
    from harness.contracts.task import Batch
    from harness.engine.stepping.native import Native, Step


class Compiled:
    """Blocks as compiled functions: one for each kind of block of a run, made when the kind first occurs."""

    in_place = False

    def __init__(self) -> None:
        self.compiling = 0.0
        self.why_not: Exception | None = None
        self._made: dict[tuple[bool, ...], Native | None] = {}

    def advance(
        self, sampler: Sampler, potential: CountingPotential, theta: Tensor, state: State, block: Block
    ) -> Advanced:
        """Run the steps of a block."""
        kind = kind_of(block)
        if kind not in self._made:
            began = time.perf_counter()
            self._made[kind] = self._make(sampler, potential, theta, state, block)
            self.compiling += time.perf_counter() - began
        if native := self._made[kind]:
            return native.advance(theta, state, block, sampler.particles * theta.shape[1])
        return advance(sampler, potential, theta, state, block)

    def _make(
        self, sampler: Sampler, potential: CountingPotential, theta: Tensor, state: State, block: Block
    ) -> Native | None:
        from harness.engine.stepping.native import Native

        try:
            return Native(_step(sampler, potential, block), theta, state, block)
        except Exception as error:
            if isinstance(error, BenchError) or lacks_memory(error):
                raise  # for example, a time limit was reached, or a step breaks the contract
            self.why_not = error  # whatever a plugin raises only when it is recorded
            return None


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
