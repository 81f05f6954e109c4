"""Named random streams: every chain of every seed has its own, and no two share one.

A stream is (seed, name, axes, chain) hashed by SHA-256; all 256 bits enter the generator. torch's CPU `manual_seed`
keeps only 32 bits of a seed, so on CPU the hash goes through `numpy.random.SeedSequence` into the whole state of the
Mersenne twister; CUDA takes a 64-bit Philox seed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch

NOISE_BLOCK = 1000
"""Steps whose noise is drawn in one call. Part of `spec.ENGINE`: 4 draws of 50 are not one draw of 200."""

NOISE_BLOCK_NUMBERS = 100_000
"""Most normals a chain draws in one call; networks of many parameters get shorter blocks."""


@dataclass(frozen=True)
class Streams:
    """The streams of one chain of one run. `axes` are further names a stream depends on (the task's, say)."""

    seed: int
    chain: int
    axes: tuple[str, ...] = ()

    def digest(self, name: str, *, per_chain: bool = True) -> bytes:
        """The 32 bytes that a stream is made of."""
        key = [self.seed, name, list(self.axes), self.chain if per_chain else None]
        return hashlib.sha256(json.dumps(key, separators=(",", ":")).encode()).digest()

    def numpy(self, name: str, *, per_chain: bool = True) -> np.random.Generator:
        """A NumPy generator (PCG64) on the named stream; `per_chain=False` is shared by the chains of a run."""
        import numpy as np

        return np.random.Generator(np.random.PCG64(_sequence(self.digest(name, per_chain=per_chain))))

    def torch(self, name: str, device: str | torch.device = "cpu", *, per_chain: bool = True) -> torch.Generator:
        """A torch generator on the named stream."""
        import torch

        digest = self.digest(name, per_chain=per_chain)
        generator = torch.Generator(device=device)
        if torch.device(device).type != "cpu":
            return generator.manual_seed(int.from_bytes(digest[:8], "big"))
        return generator.set_state(_mt19937_state(digest, generator.get_state()))


def _sequence(digest: bytes) -> np.random.SeedSequence:
    import numpy as np

    return np.random.SeedSequence(int.from_bytes(digest, "big"))


def _mt19937_state(digest: bytes, template: torch.Tensor) -> torch.Tensor:
    """A fresh torch CPU generator state (`template`) with the 624 words of its twister replaced.

    Layout of the state: 24 bytes of counters, then the words, one in the low half of every 8 bytes.
    """
    import numpy as np
    import torch

    words = np.random.MT19937(_sequence(digest)).state["state"]["key"]
    state = template.numpy().copy()
    state[24 : 24 + 624 * 8].view(np.uint64)[:] = words.astype(np.uint64)
    return torch.from_numpy(state)


class ChainNoise:
    """The noise of C chains over a block of steps, drawn ahead: what samplers see as `noise`.

    `slots` are the shapes (without the chain axis) that one step asks for, in order, found by `record`.
    """

    def __init__(self, generators: Sequence[torch.Generator], slots: Sequence[Slot]) -> None:
        self.generators = list(generators)
        self.slots = list(slots)

    def block_length(self, dim: int) -> int:
        """Steps to draw at once: by what a chain draws and holds in a step, never by the number of chains."""
        numbers = max(sum(slot.numbers for slot in self.slots), dim)
        return max(1, min(NOISE_BLOCK, NOISE_BLOCK_NUMBERS // numbers))

    def draw(self, steps: int, *, heated: bool) -> list[torch.Tensor]:
        """A tensor (steps, C, ...) for each slot; at T = 0 (`heated` false) normals are 0-dim zeros, undrawn."""
        return [self._draw(slot, steps, heated=heated) for slot in self.slots]

    def _draw(self, slot: Slot, steps: int, *, heated: bool) -> torch.Tensor:
        import torch

        device = self.generators[0].device
        if slot.kind == "normal" and not heated:
            return torch.zeros((), dtype=slot.dtype, device=device)
        fill = torch.randn if slot.kind == "normal" else torch.rand
        size = (steps, *slot.shape)
        chains = [fill(size, generator=g, dtype=slot.dtype, device=device) for g in self.generators]
        return torch.stack(chains, dim=1)

    def state(self) -> torch.Tensor:
        """Generator states, (C, bytes) uint8."""
        import torch

        return torch.stack([g.get_state() for g in self.generators])

    def load(self, state: torch.Tensor) -> None:
        """Put the generators where `state` was taken."""
        for generator, row in zip(self.generators, state, strict=True):
            generator.set_state(row.clone())


@dataclass(frozen=True)
class Slot:
    """One request for noise in a step: its kind, its shape without the chain axis, its dtype."""

    kind: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def numbers(self) -> int:
        """Numbers a chain draws for it."""
        count = 1
        for size in self.shape:
            count *= size
        return count
