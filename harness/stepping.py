"""How a block of steps is executed. The only file that knows: plain torch, one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.errors import PluginError
from harness.randomness import Slot

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.sampler import Sampler, State
    from harness.task import Batch, Problem


class BoundPotential:
    """The potential of one step: a `Problem` on its current batch, as samplers see it."""

    def __init__(self, problem: Problem, terms: int, batch: Batch | None = None) -> None:
        self._problem = problem
        self.terms = terms
        self._batch = batch

    def bind(self, batch: Batch | None) -> None:
        """Make it about another batch."""
        self._batch = batch

    def grad(self, x: Tensor) -> Tensor:
        """grad U (C, D) at x."""
        return self._problem.gradient(x, self._batch)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """U (C,) and grad U (C, D) at x."""
        return self._problem.energy_and_gradient(x, self._batch)

    @property
    def full(self) -> BoundPotential:
        """U on all the data."""
        return BoundPotential(self._problem, self.terms)


class StepNoise:
    """The noise of one step of a block drawn ahead: hands out the next slot at each request, if it is the one asked."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = slots
        self.values: Sequence[Tensor] = ()
        self.next = 0

    def start(self, values: Sequence[Tensor]) -> None:
        """Begin a step with the values of its slots."""
        self.values = values
        self.next = 0

    def finish(self) -> None:
        """End a step; raises `PluginError` where it left noise unasked for."""
        if self.next != len(self.slots):
            raise self._changed(f"asked {self.next} times")

    def normal(self, like: Tensor) -> Tensor:
        """The normals of this slot."""
        return self._take("normal", like.shape[1:])

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """The uniforms of this slot."""
        return self._take("uniform", shape[1:])

    def _take(self, kind: str, shape: Sequence[int]) -> Tensor:
        k = self.next
        self.next += 1
        if k >= len(self.slots) or self.slots[k].kind != kind or self.slots[k].shape != tuple(shape):
            raise self._changed(f"asked for {kind} {tuple(shape)} in call {self.next}")
        return self.values[k]

    def _changed(self, what: str) -> PluginError:
        asked = ", ".join(f"{slot.kind} {slot.shape}" for slot in self.slots)
        return PluginError(
            f"a step must ask for the same noise every time: its first asked for [{asked}], this one {what}"
        )


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
    """A bound potential that counts the gradients asked of it, those on the batch and those on all the data."""

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
            self._full = CountingPotential(self._problem, self.terms)
        return self._full

    def take_counts(self) -> tuple[int, int]:
        """Calls on the batch and on all the data since the last time; counting starts anew."""
        full = self._full.take_counts()[0] if self._full else 0
        calls, self.calls = self.calls, 0
        return calls, full


@dataclass(frozen=True)
class Block:
    """A stretch of B steps in one stage: all its inputs, so that running it is a pure function of theta and state.

    h and T are (B,); noise has a tensor (B, C, ...) for each slot, or a 0-dim zero where nothing is drawn; batches are
    named tensors (B, C, ...), {} where U is exact; keep (B,) marks the steps whose position is a draw.
    """

    h: Tensor
    T: Tensor
    slots: Sequence[Slot]
    noise: Sequence[Tensor]
    batches: Batch
    keep: NDArray[np.bool_]
    adapt: bool

    def __len__(self) -> int:
        return len(self.h)


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
    noise = StepNoise(block.slots)
    values = [slot.unbind(0) if slot.ndim else [slot] * len(block) for slot in block.noise]
    batches = split(block.batches, len(block))
    keep = block.keep.tolist()
    done = Advanced(theta, state)
    for k, (h, T) in enumerate(zip(block.h.unbind(0), block.T.unbind(0), strict=True)):
        potential.bind(batches[k])
        noise.start([slot[k] for slot in values])
        theta, state = sampler.step(theta, state, potential, h, T, noise)
        noise.finish()
        if block.adapt:
            state = sampler.adapt(state, h, T)
        if keep[k]:
            done.draws.append(theta)
            weight = sampler.log_weight(state)
            if weight is not None:
                done.log_weights.append(weight)
        if after is not None and after(k, theta):
            break
    done.theta, done.state = theta, state
    return done


def split(batches: Batch, steps: int) -> list[Batch | None]:
    """Named tensors (steps, C, ...) as one dict a step; {} means that U is exact."""
    if not batches:
        return [None] * steps
    columns = {name: tensor.unbind(0) for name, tensor in batches.items()}
    return [{name: column[k] for name, column in columns.items()} for k in range(steps)]
