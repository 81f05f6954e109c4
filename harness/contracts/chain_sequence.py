"""What is random about U in each step: a sequence of tensors for each chain, from that chain's own generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.contracts.randomness import load_states, states

if TYPE_CHECKING:
    from numpy.random import Generator as NumpyGenerator
    from torch import Tensor

    from harness.contracts.randomness import Generator, Streams


class ChainSequence:
    """An endless sequence of tensors for each chain, the same whatever lengths it is asked for in.

    `make(generator)` draws the next stretch of one chain, a tensor (length, ...) with the same length every time: an
    epoch of minibatches, a thousand steps of gradient noise. Stretches are made whole and handed out in parts, so
    samplers whose runs are cut at other steps still meet the same sequence.
    """

    def __init__(self, generators: Sequence[Generator], make: Callable[[Any], Tensor]) -> None:
        self.generators = list(generators)
        self.make = make
        self._refill()

    def _refill(self) -> None:
        self._start = states(self.generators)
        self._stretch = self._draw()
        self._place = 0

    def _draw(self) -> Tensor:
        """The next stretch of all chains, (length, C, ...)."""
        import torch

        return torch.stack([self.make(g) for g in self.generators], dim=1)

    def take(self, steps: int) -> Tensor:
        """The next `steps` tensors of all chains: (steps, C, ...)."""
        import torch

        parts: list[Tensor] = []
        while steps:
            if self._place == len(self._stretch):
                self._refill()
            part = self._stretch[self._place : self._place + steps]
            parts.append(part)
            self._place += len(part)
            steps -= len(part)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def ahead(self, steps: int) -> Tensor:
        """Those that come next, so many or what is left of the stretch; they are still to be taken."""
        return self._stretch[self._place : self._place + steps]

    def state(self) -> dict[str, Tensor]:
        """The generators before the current stretch (C, bytes) and the place in it (C,)."""
        import torch

        place = torch.full((len(self.generators),), self._place, dtype=torch.int64)
        return {"generators": self._start, "place": place}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state`."""
        load_states(self.generators, state["generators"])
        self._refill()
        self._place = int(state["place"][0])


def filled(n: int, lanes: int) -> int:
    """n, rounded up to a multiple of `lanes`."""
    return -(-n // lanes) * lanes


def epochs(streams: Sequence[Streams], terms: int, batch: int, lanes: int = 1) -> ChainSequence:
    """Minibatches of each chain: stretches of its own permutations of the terms, from its "order" stream.

    An element is (C, n filled up to a multiple of `lanes`) indices; the empty places of it, and of the last batch of an
    epoch where it is short, hold the number of terms, one past the last.
    """
    return _Epochs([s.numpy("order") for s in streams], terms, batch, filled(batch, lanes))


class _Epochs(ChainSequence):
    """What `epochs` returns. All chains are drawn into one array: a tensor for each would take three times as long."""

    def __init__(self, generators: Sequence[NumpyGenerator], terms: int, batch: int, width: int) -> None:
        self.terms, self.batch, self.width = terms, batch, width
        super().__init__(generators, lambda _: None)

    def _draw(self) -> Tensor:
        import numpy as np
        import torch

        batches = -(-self.terms // self.batch)
        order = np.full((len(self.generators), batches * self.batch), self.terms)
        order[:, : self.terms] = np.arange(self.terms)
        for row, generator in zip(order, self.generators, strict=True):
            generator.shuffle(row[: self.terms])  # as `permutation` does
        found = np.full((batches, len(self.generators), self.width), self.terms)
        found[:, :, : self.batch] = order.reshape(-1, batches, self.batch).swapaxes(0, 1)
        return torch.from_numpy(found)
