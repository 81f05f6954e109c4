"""What goes into a block of steps, and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.randomness import Slot
    from harness.sampler import State
    from harness.schedule import Trajectory
    from harness.task import Batch


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


@dataclass(frozen=True)
class Advanced:
    """What a block left behind: position, state, the n kept draws (n, C, D) and their log weights (n, C), if any."""

    theta: Tensor
    state: State
    draws: Tensor
    log_weights: Tensor | None
    lost: Tensor | None = None
    """At which step of the block, counted from 1, each chain (C,) was lost, 0: never; None where it was not looked."""


def split(batches: Batch, steps: int) -> list[Batch | None]:
    """Named tensors (steps, C, ...) as one dict a step; {} means that U is exact."""
    if not batches:
        return [None] * steps
    columns = {name: tensor.unbind(0) for name, tensor in batches.items()}
    return [{name: column[k] for name, column in columns.items()} for k in range(steps)]


def cut(trajectory: Trajectory, length: int, refresh_every: int = 0) -> Iterator[tuple[int, int]]:
    """The blocks (start, stop) of a trajectory: one stage each, no refresh within, at most `length` steps."""
    import numpy as np

    heated, burning = trajectory.temperature > 0, trajectory.burn_in
    changes = np.flatnonzero((heated[1:] != heated[:-1]) | (burning[1:] != burning[:-1])) + 1
    refreshes = range(refresh_every, len(trajectory), refresh_every) if refresh_every else ()
    edges = np.union1d(changes, refreshes).astype(np.int64)
    for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), len(trajectory)], strict=True):
        yield from ((s, min(s + length, stop)) for s in range(start, stop, length))
