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
        import torch

        self._start = states(self.generators)
        self._stretch = torch.stack([self.make(g) for g in self.generators], dim=1)
        self._place = 0

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
    import torch

    batches = -(-terms // batch)

    def draw(generator: NumpyGenerator) -> Tensor:
        order = torch.full((batches * batch,), terms)
        order[:terms] = torch.from_numpy(generator.permutation(terms))
        return torch.nn.functional.pad(order.view(batches, batch), (0, -batch % lanes), value=terms)

    return ChainSequence([s.numpy("order") for s in streams], draw)
