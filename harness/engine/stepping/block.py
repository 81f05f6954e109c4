"""The execution of a block of steps: its inputs and results, and their checks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from harness.system.errors import PluginError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.contracts.randomness import Slot
    from harness.contracts.sampler import Sampler, State
    from harness.contracts.schedule import Trajectory
    from harness.contracts.task import Batch
    from harness.engine.stepping.potential import CountingPotential


@dataclass(frozen=True)
class Block:
    """A part of a trajectory, B steps in one stage, with all inputs: running it is a pure function of theta and state.

    h and T are (B,); noise has a tensor (B, C, ...) for each slot, or a 0-dim zero if nothing is drawn; batches are
    named tensors (B, C, ...), {} if U is exact; keep (B,) marks the steps whose position is a draw.
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
    """The result of a block: position, state, the n kept draws (n, C, P D) and their log weights (n, C), if any."""

    theta: Tensor
    state: State
    draws: Tensor
    log_weights: Tensor | None
    lost: Tensor | None = None
    """The step of the block, counted from 1, at which each chain (C,) was lost, or 0; None if this was not checked."""


class Stepper(ABC):
    """A mode of execution of the steps of one sampler at a potential."""

    mode: ClassVar[str]
    """How the steps are executed: "plain" or "compiled"."""

    in_place: ClassVar[bool] = False
    """Whether the results overwrite theta and state."""

    def __init__(self, sampler: Sampler, potential: CountingPotential) -> None:
        self.sampler, self.potential = sampler, potential
        self._functions: dict[Any, Any] = {}
        self._graphs: dict[Any, Any] = {}

    def code_counts(self) -> tuple[int, int]:
        """Return how many functions were compiled for its steps, and as how many CUDA graphs they were recorded."""
        return len(self._functions), len(self._graphs)

    @abstractmethod
    def make(self, theta: Tensor, state: State, block: Block) -> None:
        """Make the code for blocks like this one, before the first step. Nothing that is passed changes.

        Raise `UncompiledError` if it cannot be made: no step is then executed in another mode.
        """

    @abstractmethod
    def advance(self, theta: Tensor, state: State, block: Block) -> Advanced:
        """Run the steps of a block: a pure function of its arguments, which stay unchanged unless `in_place`.

        Raise `PluginError` if a step makes another number of gradient calls than declared, or returns another kind of
        position or state. The potential's counts are zero afterwards.
        """


def check_returned(sampler: Sampler, theta: Tensor, state: State, like: Tensor, was: State, what: str = "step") -> None:
    """Raise `PluginError` unless position and state have the keys, shapes, dtypes and devices that they had before."""
    import torch

    name = type(sampler).__name__
    if not isinstance(state, dict) or state.keys() != was.keys():
        keys = f"entries {sorted(state)}" if isinstance(state, dict) else f"type {type(state).__name__}"
        raise PluginError(f"{name}.{what}: state has {keys}, after init it had {sorted(was)}")
    for entry, new, old in [("theta", theta, like), *((key, state[key], leaf) for key, leaf in was.items())]:
        if not isinstance(new, torch.Tensor):
            raise PluginError(f"{name}.{what}: {entry} was a tensor and came back as {type(new).__name__}")
        if (new.shape, new.dtype, new.device) != (old.shape, old.dtype, old.device):
            moved = new.device != old.device
            before, after = (
                f"{tuple(leaf.shape)} {leaf.dtype}" + (f" on {leaf.device}" if moved else "") for leaf in (old, new)
            )
            raise PluginError(f"{name}.{what}: {entry} was {before} and came back as {after}")


def check_weights(sampler: Sampler, weights: Tensor, shape: tuple[int, ...]) -> None:
    """Raise `PluginError` unless log weights are floating-point numbers of this shape, one for each chain."""
    import torch

    if isinstance(weights, torch.Tensor) and weights.shape == shape and weights.is_floating_point():
        return
    kind = f"a {type(weights).__name__}"
    if isinstance(weights, torch.Tensor):
        kind = f"{weights.dtype} of shape {tuple(weights.shape)}"
    raise PluginError(
        f"{type(sampler).__name__}.log_weight: {kind} is not one floating-point number a chain, {tuple(shape)}"
    )


def drawn(sampler: Sampler, theta: Tensor, state: State) -> Tensor:
    """Return the draw that a step makes: theta (C, D), or the particles of an ensemble (C, P D)."""
    return theta if sampler.particles == 1 else sampler.ensemble(theta, state).flatten(1)


def finite(positions: Tensor) -> Tensor:
    """Return which positions (..., D) have only finite numbers, (...).

    On a CPU one sum usually answers for all. It may overflow, so if it is not finite the extremes decide: NaN
    propagates to them, and they take a tenth of the time of `isfinite().all()`. On a GPU only the extremes are used,
    because reading the sum would wait for the GPU.
    """
    import torch

    if positions.device.type == "cpu" and math.isfinite(positions.sum().item()):
        return positions.new_ones(positions.shape[:-1], dtype=torch.bool)
    return positions.amax(-1).isfinite() & positions.amin(-1).isfinite()


def check_particles(sampler: Sampler, theta: Tensor, state: State) -> None:
    """Raise `PluginError` unless an ensemble has the declared number of particles, in theta's dtype."""
    count, name = sampler.particles, type(sampler).__name__
    if type(count) is not int or count < 1:
        raise PluginError(f"{name}.particles is {count!r:.40}, not a whole number of at least 1")
    if count == 1:
        return
    stack = sampler.ensemble(theta, state)
    shape = (len(theta), count, theta.shape[1])
    if (tuple(stack.shape), stack.dtype) != (shape, theta.dtype):
        raise PluginError(f"{name}.ensemble: {stack.dtype} of shape {tuple(stack.shape)} is not {theta.dtype} {shape}")
    if not bool((stack[:, 0].nan_to_num() == theta.nan_to_num()).all()):
        raise PluginError(f"{name}.ensemble: its first particle is not theta")


def stacked(
    sampler: Sampler, draws: Sequence[Tensor], log_weights: Sequence[Tensor], theta: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return the kept draws (n, C, P D) and their log weights (n, C), if any; raise `PluginError` if shapes differ."""
    import torch

    name = type(sampler).__name__
    if not draws:
        return theta.new_empty((0, *theta.shape)), None
    try:
        kept = torch.stack(list(draws))
        weights = torch.stack(list(log_weights)) if log_weights else None
    except (RuntimeError, TypeError) as error:
        raise PluginError(f"{name}: positions or log weights change their shape from step to step: {error}") from error
    shape = (len(theta), sampler.particles * theta.shape[1])
    if kept.shape[1:] != shape:
        raise PluginError(f"{name}.step: theta was {shape} and came back as {tuple(kept.shape[1:])}")
    if weights is not None:
        check_weights(sampler, weights, (len(draws), len(theta)))
    return kept, weights


def check_unchanged(sampler: Sampler, draws: Sequence[Tensor], versions: Sequence[int]) -> None:
    """Raise `PluginError` if a position was changed, by torch's `_version`, after it had become a draw."""
    if any(draw._version != version for draw, version in zip(draws, versions, strict=True)):  # noqa: SLF001
        raise PluginError(
            f"{type(sampler).__name__}.step changes theta in place, and with it the draws before; return a new tensor: "
            "theta + x in place of theta.add_(x)"
        )


def check_calls(
    sampler: Sampler, counted: tuple[int, int], what: str = "step", due: tuple[int, int] | None = None
) -> None:
    """Raise `PluginError` unless the gradient calls, on the batch and on all data, are those `due` or declared."""
    declared = sampler.gradients_per_step, sampler.full_gradients_per_step
    if counted != (declared if due is None else due):
        raise PluginError(
            f"{type(sampler).__name__} declares (gradients_per_step, full_gradients_per_step) = {declared}, "
            f"its {what} makes {counted} calls" + ("" if due is None else f" where it may make {due}")
        )


def split(batches: Batch, steps: int) -> list[Batch | None]:
    """Return named tensors (steps, C, ...) as one dict for each step; None for each step if U is exact."""
    if not batches:
        return [None] * steps
    names, columns = list(batches), [tensor.unbind(0) for tensor in batches.values()]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def cut(trajectory: Trajectory, length: int, refresh_every: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the blocks (start, stop) of a trajectory: one stage each, no refresh inside, at most `length` steps."""
    import numpy as np

    heated, burning = trajectory.temperature > 0, trajectory.burn_in
    changes = np.flatnonzero((heated[1:] != heated[:-1]) | (burning[1:] != burning[:-1])) + 1
    refreshes = range(refresh_every, len(trajectory), refresh_every) if refresh_every else ()
    edges = np.union1d(changes, refreshes).astype(np.int64)
    for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), len(trajectory)], strict=True):
        yield from ((s, min(s + length, stop)) for s in range(start, stop, length))
