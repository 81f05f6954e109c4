"""How a block of steps is executed. The only file that knows: plain torch, one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.errors import PluginError
from harness.randomness import Slot

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from harness.sampler import Sampler, State
    from harness.task import Batch, Problem


class BoundPotential:
    """The potential of one step: a `Problem` on its current batch, as samplers see it."""

    def __init__(self, problem: Problem, terms: int, batch: Batch | None = None) -> None:
        self.problem = problem
        self.terms = terms
        self.batch = batch

    def grad(self, x: Tensor) -> Tensor:
        """grad U (C, D) at x."""
        return self.problem.gradient(x, self.batch)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """U (C,) and grad U (C, D) at x."""
        return self.problem.energy_and_gradient(x, self.batch)

    @property
    def full(self) -> BoundPotential:
        """U on all the data."""
        return BoundPotential(self.problem, self.terms)


class StepNoise:
    """The noise of one step of a block drawn ahead: hands out the next slot at each request."""

    def __init__(self) -> None:
        self.values: list[Tensor] = []
        self.next = 0

    def set(self, values: list[Tensor]) -> None:
        """Start a step with the values of its slots."""
        self.values = values
        self.next = 0

    def _take(self) -> Tensor:
        self.next += 1
        try:
            return self.values[self.next - 1]
        except IndexError:
            raise PluginError(
                f"the step asked for noise {self.next} times, in its first call {len(self.values)} times; "
                "a step must ask for the same noise every time"
            ) from None

    def normal(self, like: Tensor) -> Tensor:
        """The normals of this slot."""
        return self._take()

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """The uniforms of this slot."""
        return self._take()


class DirectNoise:
    """Noise drawn at the moment it is asked for, and a record of what was asked: for `init` and for probing."""

    def __init__(self, generators: Sequence[torch.Generator], dtype: torch.dtype) -> None:
        self.generators = generators
        self.dtype = dtype
        self.slots: list[Slot] = []

    def normal(self, like: Tensor) -> Tensor:
        """Standard normals like `like`."""
        return self._draw(Slot("normal", tuple(like.shape[1:]), like.dtype))

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Uniforms of `shape`."""
        return self._draw(Slot("uniform", tuple(shape[1:]), self.dtype))

    def _draw(self, slot: Slot) -> Tensor:
        import torch

        self.slots.append(slot)
        fill = torch.randn if slot.kind == "normal" else torch.rand
        rows = [fill(slot.shape, generator=g, dtype=slot.dtype, device=g.device) for g in self.generators]
        return torch.stack(rows)


class CountingPotential(BoundPotential):
    """A bound potential that counts the gradients asked of it: `calls` on the batch, `full_calls` on all data."""

    def __init__(self, problem: Problem, terms: int, batch: Batch | None = None) -> None:
        super().__init__(problem, terms, batch)
        self.calls = 0
        self._full: CountingPotential | None = None

    def grad(self, x: Tensor) -> Tensor:
        """grad U (C, D) at x, counted."""
        self.calls += 1
        return super().grad(x)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """U (C,) and grad U (C, D) at x, counted."""
        self.calls += 1
        return super().value_and_grad(x)

    @property
    def full(self) -> CountingPotential:
        """U on all the data, counted apart."""
        if self._full is None:
            self._full = CountingPotential(self.problem, self.terms)
        return self._full

    @property
    def full_calls(self) -> int:
        """Gradients asked of `full`."""
        return self._full.calls if self._full else 0


@dataclass(frozen=True)
class Block:
    """A stretch of steps in one stage: all its inputs, so that running it is a pure function of theta and state."""

    h: Sequence[Tensor]
    T: Sequence[Tensor]
    noise: Sequence[Sequence[Tensor]]
    batches: Sequence[Batch | None]
    keep: Sequence[bool]
    adapt: bool


@dataclass
class Advanced:
    """What a block left behind: position, state, and the kept draws with their log weights."""

    theta: Tensor
    state: State
    draws: list[Tensor] = field(default_factory=list)
    log_weights: list[Tensor] = field(default_factory=list)


def advance(
    sampler: Sampler,
    potential: BoundPotential,
    theta: Tensor,
    state: State,
    block: Block,
    after: Callable[[int, Tensor], bool] | None = None,
) -> Advanced:
    """Run the steps of a block. `after(step, theta)` may look at each position and end the block by returning True.

    Positions are rebound, never written in place, so a draw stays what it was when it was kept.
    """
    noise = StepNoise()
    done = Advanced(theta, state)
    for k in range(len(block.h)):
        h, T = block.h[k], block.T[k]
        potential.batch = block.batches[k]
        noise.set([slot[k] for slot in block.noise])
        theta, state = sampler.step(theta, state, potential, h, T, noise)
        if block.adapt:
            state = sampler.adapt(state, h, T)
        if block.keep[k]:
            done.draws.append(theta)
            weight = sampler.log_weight(state)
            if weight is not None:
                done.log_weights.append(weight)
        if after is not None and after(k, theta):
            break
    done.theta, done.state = theta, state
    return done
