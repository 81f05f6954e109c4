"""Named random streams: every chain of every seed has its own, and no two share one.

A stream is (seed, name, axes, chain) hashed by SHA-256; all 256 bits enter the generator. torch's CPU `manual_seed`
keeps only 32 bits of a seed, so on CPU the hash goes through `numpy.random.SeedSequence` into the whole state of the
Mersenne twister; CUDA takes a 64-bit Philox seed. Normals of double precision come from NumPy (SFC64, ziggurat) where
they are drawn on the CPU: torch takes more than twice as long for them, and half as long for single precision.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.system.cpp import CompilerError, built

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import dtype as DType  # noqa: N812 - `Streams` has a method called torch

    Generator: TypeAlias = torch.Generator | np.random.Generator

TUNING_SEED = 10**9
"""The first of the seeds of `bench tune`: reports leave their runs out, and classifiers do not see their test rows."""

LONG = 20_000
"""Normals from which drawing them by C++ of our own pays off: to hand over the generator's state takes 5 us."""

NORMALS = Path(__file__).with_name("normals.cpp")

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
        """A NumPy generator (SFC64) on the named stream; `per_chain=False` is shared by the chains of a run."""
        import numpy as np

        return np.random.Generator(np.random.SFC64(_sequence(self.digest(name, per_chain=per_chain))))

    def torch(self, name: str, device: str | torch.device = "cpu", *, per_chain: bool = True) -> torch.Generator:
        """A torch generator on the named stream."""
        import torch

        digest = self.digest(name, per_chain=per_chain)
        generator = torch.Generator(device=device)
        if torch.device(device).type != "cpu":
            return generator.manual_seed(int.from_bytes(digest[:8], "big"))
        return generator.set_state(_mt19937_state(digest, generator.get_state()))

    def fastest(self, name: str, device: str, dtype: DType) -> Generator:
        """The generator that draws numbers of this type on this device soonest."""
        import torch

        on_numpy = torch.device(device).type == "cpu" and dtype == torch.float64
        return self.numpy(name) if on_numpy else self.torch(name, device)


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

    def __init__(self, generators: Sequence[Generator], slots: Sequence[Slot]) -> None:
        self.generators = list(generators)
        self.slots = list(slots)
        if any(_may_be_fast(slot.kind, slot.dtype, g) for slot in slots for g in self.generators[:1]):
            _fast_normals()  # compiled where it is not yet, before anyone takes the time of a step

    def block_length(self, dim: int) -> int:
        """Steps to draw at once: by what a chain draws and holds in a step, never by the number of chains."""
        numbers = max(sum(slot.numbers for slot in self.slots), dim)
        return max(1, min(NOISE_BLOCK, NOISE_BLOCK_NUMBERS // numbers))

    def draw(self, steps: int, *, heated: bool) -> list[torch.Tensor]:
        """A tensor (steps, C, ...) for each slot; at T = 0 (`heated` false) normals are 0-dim zeros, undrawn."""
        return [self._draw(slot, steps, heated=heated) for slot in self.slots]

    def _draw(self, slot: Slot, steps: int, *, heated: bool) -> torch.Tensor:
        import torch

        first = self.generators[0]
        device = first.device if isinstance(first, torch.Generator) else torch.device("cpu")
        if slot.kind == "normal" and not heated:
            return torch.zeros((), dtype=slot.dtype, device=device)
        drawn = torch.empty((len(self.generators), steps, *slot.shape), dtype=slot.dtype, device=device)
        for generator, chain in zip(self.generators, drawn, strict=True):
            _fill(chain, slot.kind, generator)
        return drawn.transpose(0, 1)

    def state(self) -> torch.Tensor:
        """Generator states, (C, bytes) uint8."""
        return states(self.generators)

    def load(self, state: torch.Tensor) -> None:
        """Put the generators where `state` was taken."""
        load_states(self.generators, state)


def _fill(out: torch.Tensor, kind: str, generator: Generator) -> None:
    """Fill `out` with standard normals or with uniforms on [0, 1)."""
    import torch

    if isinstance(generator, torch.Generator):
        if _may_be_fast(kind, out.dtype, generator) and out.numel() >= LONG:
            fast = _fast_normals()
            if fast is not None:
                fast(out, generator)
                return
        out.normal_(generator=generator) if kind == "normal" else out.uniform_(generator=generator)
    elif kind == "normal":
        generator.standard_normal(out=out.numpy(), dtype=out.numpy().dtype)
    else:
        generator.random(out=out.numpy(), dtype=out.numpy().dtype)


def _may_be_fast(kind: str, dtype: DType, generator: Generator) -> bool:
    """Whether `_fast_normals` draws such numbers, if there are many."""
    import torch

    on_cpu = isinstance(generator, torch.Generator) and generator.device.type == "cpu"
    return kind == "normal" and dtype == torch.float32 and on_cpu


@functools.cache
def _fast_normals() -> Callable[[torch.Tensor, torch.Generator], None] | None:
    """What draws float32 normals as `normal_` does, the same bits in a third of the time; None where it does not."""
    import torch

    try:
        draw = built(NORMALS.read_text(encoding="utf-8")).draw
    except CompilerError:
        return None

    def fill(out: torch.Tensor, generator: torch.Generator) -> None:
        state = generator.get_state()
        draw(ctypes.c_void_p(state.data_ptr()), ctypes.c_void_p(out.data_ptr()), ctypes.c_long(out.numel()))
        generator.set_state(state)

    # What torch computes depends on its version and on the processor, so a sample decides.
    generators = [torch.Generator().manual_seed(5) for _ in range(2)]
    found, wanted = torch.empty(2, 100_003)
    fill(found, generators[0])
    wanted.normal_(generator=generators[1])
    same = torch.equal(found, wanted) and torch.equal(*(g.get_state() for g in generators))
    return fill if same else None


def states(generators: Sequence[Generator]) -> torch.Tensor:
    """The states of generators of one kind, (C, bytes) uint8."""
    import numpy as np
    import torch

    if isinstance(generators[0], torch.Generator):
        return torch.stack([g.get_state() for g in generators if isinstance(g, torch.Generator)])
    words = [_sfc64_words(g) for g in generators if isinstance(g, np.random.Generator)]
    return torch.from_numpy(np.array(words, dtype=np.uint64).view(np.uint8))


def load_states(generators: Sequence[Generator], state: torch.Tensor) -> None:
    """Put generators where `states` found them."""
    import numpy as np
    import torch

    for generator, row in zip(generators, state, strict=True):
        if isinstance(generator, torch.Generator):
            generator.set_state(row.clone())
        else:
            *words, left, half = row.numpy().copy().view(np.uint64)
            inner = {"state": np.array(words, dtype=np.uint64)}
            generator.bit_generator.state = {
                "bit_generator": "SFC64", "state": inner, "has_uint32": int(left), "uinteger": int(half),
            }  # fmt: skip


def _sfc64_words(generator: np.random.Generator) -> list[int]:
    """The four words of SFC64, and the half word that it may have left over."""
    state: Any = generator.bit_generator.state
    return [*state["state"]["state"].tolist(), state["has_uint32"], state["uinteger"]]


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
