"""The random part of U in each step: a sequence of tensors for each chain, drawn from that chain's own generator."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.contracts.randomness import load_states, states
from harness.system.cpp import compiled

if TYPE_CHECKING:
    from numpy.random import Generator as NumpyGenerator
    from torch import Tensor

    from harness.contracts.randomness import Generator, Streams


PERMUTATIONS = Path(__file__).with_name("epochs.cpp")


class ChainSequence:
    """An endless sequence of tensors for each chain. It does not depend on the lengths in which the tensors are taken.

    `make(generator)` draws the next stretch of one chain: a tensor (length, ...) whose length is the same every time,
    such as an epoch of minibatches or a thousand steps of gradient noise. A stretch is always drawn whole and handed
    out in parts, so runs whose blocks end at other steps get the same sequence.
    """

    def __init__(self, generators: Sequence[Generator], make: Callable[[Any], Tensor]) -> None:
        self.generators = list(generators)
        self.make = make
        self._copied: Tensor | None = None
        self._refill()

    def _refill(self) -> None:
        self._start = states(self.generators)
        self._stretch = self._draw()
        self._position = 0

    def _draw(self) -> Tensor:
        """Draw the next stretch of all chains, (length, C, ...)."""
        import torch

        return torch.stack([self.make(g) for g in self.generators], dim=1)

    def take(self, steps: int) -> Tensor:
        """Return the next `steps` tensors of all chains, (steps, C, ...)."""
        import torch

        parts: list[Tensor] = []
        while steps:
            if self._position == len(self._stretch):
                self._refill()
            part = self._stretch[self._position : self._position + steps]
            parts.append(part)
            self._position += len(part)
            steps -= len(part)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def sent(self, part: Tensor, device: str) -> Tensor:
        """Return `part`, the result of the last `take`, on a device.

        If `part` lies within one stretch, the whole stretch is copied to the device at once, so that a step does not
        wait for a copy of its own.
        """
        if device == "cpu" or self._position < len(part):
            return part.to(device)
        if self._copied is not self._stretch:
            self._copied, self._copy = self._stretch, self._stretch.to(device)
        return self._copy[self._position - len(part) : self._position]

    def ahead(self, steps: int) -> Tensor:
        """Return the next tensors without taking them: `steps` of them, or fewer at the end of the stretch."""
        return self._stretch[self._position : self._position + steps]

    def state(self) -> dict[str, Tensor]:
        """Return the generators' states before the current stretch, (C, bytes), and the place in the stretch, (C,)."""
        import torch

        position = torch.full((len(self.generators),), self._position, dtype=torch.int64)
        return {"generators": self._start, "place": position}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""
        load_states(self.generators, state["generators"])
        self._refill()
        self._position = int(state["place"][0])


def filled(n: int, lanes: int) -> int:
    """Return n rounded up to a multiple of `lanes`."""
    return -(-n // lanes) * lanes


def epochs(streams: Sequence[Streams], terms: int, batch: int, lanes: int = 1) -> ChainSequence:
    """Return the minibatches of each chain, from its "order" stream, in the order that `streams` states.

    They are the parts of a permutation of the terms, there or ("symmetric") there and back, then those of the next one;
    "replaced": each is drawn on its own, with replacement.

    An element holds (C, n rounded up to a multiple of `lanes`) indices. Empty places, which come from the rounding and
    from a short last batch of an epoch, hold the number of terms, one past the last index.
    """
    return _Epochs([s.numpy("order") for s in streams], terms, batch, filled(batch, lanes), streams[0].order)


class _Epochs(ChainSequence):
    """The sequence that `epochs` returns.

    A stretch holds as many rounds as were asked for, in one array in which the numbers of a chain are contiguous. A
    round is an epoch, or there and back.
    """

    def __init__(self, generators: Sequence[NumpyGenerator], terms: int, batch: int, width: int, order: str) -> None:
        self.terms, self.batch, self.width, self.order = terms, batch, width, order
        self.batches = -(-terms // batch)
        self.round = self.batches * (2 if order == "symmetric" else 1)
        super().__init__(generators, lambda _: None)

    def _refill(self) -> None:
        import torch

        self._now, self._position = states(self.generators), 0
        self._stretch = torch.empty((0, len(self.generators), self.width), dtype=torch.int64)
        self._extend(1)

    def _extend(self, rounds: int) -> None:
        """Replace the stretch by what is left of it, followed by `rounds` new rounds."""
        import torch

        rest = self._stretch[self._position :].transpose(0, 1)
        stretch = torch.empty((len(rest), rest.shape[1] + rounds * self.round, self.width), dtype=torch.int64)
        stretch[:, : rest.shape[1]] = rest
        fresh = stretch[:, rest.shape[1] :]
        there = fresh if self.round == self.batches else torch.empty_like(fresh[:, : rounds * self.batches])
        self._start = self._drawn(there, rounds)
        if there is not fresh:
            epochs = there.unflatten(1, (rounds, self.batches))
            fresh[:] = torch.cat([epochs, epochs.flip(2)], dim=2).flatten(1, 2)
        self._stretch, self._position = stretch.transpose(0, 1), 0

    def _drawn(self, out: Tensor, epochs: int) -> Tensor:
        """Draw epochs into `out` (C, batches of all, width); return the generators' states before the last epoch."""
        import torch

        before = torch.empty_like(self._now)
        code = None if self.order == "replaced" else compiled(PERMUTATIONS)
        if code is None:
            return self._drawn_by_numpy(out, epochs)
        numbers = (len(out), epochs, self.terms, self.batch, self.width)
        code.draw(
            ctypes.c_void_p(self._now.data_ptr()), ctypes.c_void_p(before.data_ptr()), *map(ctypes.c_long, numbers),
            ctypes.c_void_p(out.data_ptr()), ctypes.c_long(out.stride(0)),
        )  # fmt: skip
        return before

    def _drawn_by_numpy(self, out: Tensor, epochs: int) -> Tensor:
        import numpy as np

        load_states(self.generators, self._now)
        out.fill_(self.terms)
        N, replaced = self.terms, self.order == "replaced"
        to, order = out.numpy(), np.full(self.batches * self.batch, self.terms)
        for epoch in range(epochs):
            before = states(self.generators)
            for chain, generator in zip(to, self.generators, strict=True):
                drawn = generator.integers(N, size=len(order)) if replaced else generator.permutation(N)
                order[: len(drawn)] = drawn
                rows = chain[epoch * self.batches : (epoch + 1) * self.batches]
                rows[:, : self.batch] = order.reshape(rows.shape[0], self.batch)
        self._now = states(self.generators)
        return before

    def take(self, steps: int) -> Tensor:
        """Return the next `steps` minibatches of all chains, (steps, C, width)."""
        missing = steps - (len(self._stretch) - self._position)
        if missing > 0:
            self._extend(-(-missing // self.round))
        self._position += steps
        return self._stretch[self._position - steps : self._position]

    def state(self) -> dict[str, Tensor]:
        """Return the generators' states before the current round, which may just have ended, and the place in it."""
        import torch

        position = self._position - (len(self._stretch) - self.round)
        return {"generators": self._start, "place": torch.full((len(self.generators),), position, dtype=torch.int64)}
