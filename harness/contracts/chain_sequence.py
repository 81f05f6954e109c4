"""What is random about U in each step: a sequence of tensors for each chain, from that chain's own generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.contracts.randomness import load_states, states

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.randomness import Generator


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
