"""Noise: the harness's own sources, and the restricted object from which samplers request it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.contracts.randomness import Slot
from harness.system.errors import PluginError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from harness.contracts import sampler as contract


class Noise:
    """The noise source that a sampler gets: the interface of `harness.contracts.sampler.Noise` and nothing else."""

    __slots__ = ("normal", "uniform")

    def __init__(self, noise: contract.Noise) -> None:
        def normal(like: Tensor) -> Tensor:
            return noise.normal(like)

        def uniform(shape: Sequence[int]) -> Tensor:
            return noise.uniform(shape)

        self.normal = normal
        self.uniform = uniform


class StepNoise:
    """The noise of one step of a block, drawn in advance: each request gets the next slot, if kind and shape match."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = slots
        self.count = len(slots)
        self.kinds = [slot.kind for slot in slots]
        self.shapes: list[Sequence[int]] = [()] * self.count
        self.values: Sequence[Tensor] = ()
        self.next = 0

    def start(self, values: Sequence[Tensor]) -> None:
        """Begin a step with the values of its slots."""
        self.values = values
        self.next = 0

    def finish(self) -> None:
        """End a step; raise `PluginError` if it did not request all of its noise."""
        if self.next != self.count:
            raise self._changed(f"asked {self.next} times")

    def normal(self, like: Tensor) -> Tensor:
        """Return the normals of this slot."""
        return self._take("normal", like.shape)

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Return the uniforms of this slot."""
        return self._take("uniform", shape)

    def _take(self, kind: str, shape: Sequence[int]) -> Tensor:
        """Return the next value, if its slot has this kind and this shape, whose first axis is the chains."""
        k = self.next
        self.next = k + 1
        if k < self.count and self.kinds[k] == kind and (shape == self.shapes[k] or self._fits(k, shape)):
            return self.values[k]
        raise self._changed(f"asked for {kind} {tuple(shape[1:])} in call {self.next}")

    def _fits(self, k: int, shape: Sequence[int]) -> bool:
        """Return whether slot k has this shape, which is then kept, because it is the same in all steps.

        A value that was not drawn is 0-dim; its slot has the shape.
        """
        value = self.values[k]
        fits = value.shape == shape or (not value.ndim and self.slots[k].shape == tuple(shape[1:]))
        if fits:
            self.shapes[k] = tuple(shape)
        return fits

    def _changed(self, what: str) -> PluginError:
        asked = ", ".join(f"{slot.kind} {slot.shape}" for slot in self.slots)
        return PluginError(
            f"a step must ask for the same noise every time: its first asked for [{asked}], this one {what}"
        )


class DirectNoise:
    """Noise that is drawn when it is requested, with a record of the requests: for `init` and for probing."""

    def __init__(self, generators: Sequence[torch.Generator], dtype: torch.dtype) -> None:
        self.generators = generators
        self.dtype = dtype
        self.slots: list[Slot] = []

    def normal(self, like: Tensor) -> Tensor:
        """Return standard normals like `like`."""
        return self._draw(Slot("normal", tuple(like.shape[1:]), like.dtype))

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Return uniforms of `shape`."""
        return self._draw(Slot("uniform", tuple(shape[1:]), self.dtype))

    def end(self) -> None:
        """Refuse all later requests, because a run draws its noise in steps."""
        self.generators = ()

    def _draw(self, slot: Slot) -> Tensor:
        import torch

        if not self.generators:
            raise PluginError("a sampler uses a noise source after its call has ended; use the one passed to each call")
        self.slots.append(slot)
        fill = torch.randn if slot.kind == "normal" else torch.rand
        rows = [fill(slot.shape, generator=g, dtype=slot.dtype, device=g.device) for g in self.generators]
        return torch.stack(rows)
