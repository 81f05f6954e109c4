"""Named random streams: every chain of every seed has its own, and no two chains share one.

A stream is (seed, name, axes, chain) hashed by SHA-256. On CPU all 256 bits enter the generator: torch's `manual_seed`
keeps only 32 bits of a seed, so the hash goes through `numpy.random.SeedSequence` into the whole state of the Mersenne
twister. CUDA takes a 64-bit Philox seed. Normals in double precision come from NumPy (SFC64, ziggurat) if they are
drawn on the CPU: torch takes more than twice as long for them, and half as long for single precision.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.system.cpp import compiled

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import dtype as DType  # noqa: N812 - `Streams` has a method called torch

    Generator: TypeAlias = torch.Generator | np.random.Generator

TUNING_SEED = 10**9
"""First of the seeds of `bench tune`: reports leave their runs out, and predictions are judged on training rows that
the runs do not use.
"""
ALL_ROWS_SEED = 15 * 10**8
"""First of the seeds of searches that minimise an error against the truth, which is of all rows: none is held out."""

ORDERS = ("shuffled", "replaced", "symmetric")
"""The orders of minibatches, the usual one first."""

LONG = 20_000
"""Number of normals from which the project's own C++ is faster: passing the generator's state to it takes 5 us."""

NORMALS = Path(__file__).with_name("normals.cpp")

NOISE_BLOCK = 1000
"""Number of steps whose noise is drawn in one call. Part of `spec.ENGINE`: 4 draws of 50 are not one draw of 200."""

NOISE_BLOCK_NUMBERS = 100_000
"""Largest number of normals that a chain draws in one call; networks of many parameters get shorter blocks."""


@dataclass(frozen=True)
class Streams:
    """The streams of one chain of one run. `axes` are further names on which a stream depends (the task's, say).

    No stream depends on `order`, how minibatches follow each other.
    """

    seed: int
    chain: int
    axes: tuple[str, ...] = ()
    order: str = ORDERS[0]

    @property
    def holds_out(self) -> bool:
        """Whether the run is of a search by predictions, so that rows are held out for them."""
        return TUNING_SEED <= self.seed < ALL_ROWS_SEED

    def digest(self, name: str, *, per_chain: bool = True) -> bytes:
        """Return the 32 bytes from which a stream is made."""
        key = [self.seed, name, list(self.axes), self.chain if per_chain else None]
        return hashlib.sha256(json.dumps(key, separators=(",", ":")).encode()).digest()

    def numpy(self, name: str, *, per_chain: bool = True) -> np.random.Generator:
        """Return a NumPy generator (SFC64) for a named stream; with `per_chain=False` the chains of a run share it."""
        import numpy as np

        return np.random.Generator(np.random.SFC64(_sequence(self.digest(name, per_chain=per_chain))))

    def torch(self, name: str, device: str | torch.device = "cpu", *, per_chain: bool = True) -> torch.Generator:
        """Return a torch generator for a named stream."""
        import torch

        digest = self.digest(name, per_chain=per_chain)
        generator = torch.Generator(device=device)
        if torch.device(device).type != "cpu":
            return generator.manual_seed(int.from_bytes(digest[:8], "big"))
        return generator.set_state(_mt19937_state(digest))


def noise_generators(streams: Sequence[Streams], device: str, dtype: DType, name: str = "noise") -> list[Generator]:
    """Return for each chain the generator that draws its noise of this dtype on this device fastest.

    On a GPU the chains of a run share one, because a kernel for each chain would take longer than the steps.
    """
    import torch

    if torch.device(device).type == "cpu":
        return [s.numpy(name) if dtype == torch.float64 else s.torch(name) for s in streams]
    runs = {(s.seed, s.axes): s for s in reversed(streams)}
    generators = {run: s.torch(name, device, per_chain=False) for run, s in runs.items()}
    return [generators[s.seed, s.axes] for s in streams]


def _sequence(digest: bytes) -> np.random.SeedSequence:
    import numpy as np

    return np.random.SeedSequence(int.from_bytes(digest, "big"))


@functools.lru_cache(maxsize=1024)
def _mt19937_state(digest: bytes) -> torch.Tensor:
    """Return a fresh state of a torch CPU generator, for `set_state`: 5 kB, computed in 0.1 ms, which laws repeat.

    The state has 24 bytes of counters, then the 624 words of its twister, one in the low half of every 8 bytes.
    """
    import numpy as np
    import torch

    words = _sequence(digest).generate_state(624)
    words[0] = 0x80000000  # as in np.random.MT19937(sequence), whose `state` takes longer: not all bits may be zero
    state = torch.Generator().get_state().numpy()
    state[24 : 24 + 624 * 8].view(np.uint64)[:] = words
    return torch.from_numpy(state)


class ChainNoise:
    """The noise of C chains over a block of steps, drawn in advance; samplers get it as `noise`.

    `generators` has one for each chain; chains that follow one another may share one. `slots` are the requests of one
    step for noise, in order.
    """

    def __init__(self, generators: Sequence[Generator], slots: Sequence[Slot]) -> None:
        shared = [list(chains) for _, chains in itertools.groupby(generators, key=id)]
        self.generators = [chains[0] for chains in shared]
        self.chains = [len(chains) for chains in shared]
        self.slots = list(slots)
        if self.generators and any(_may_be_fast(slot.kind, slot.dtype, self.generators[0]) for slot in slots):
            _fast_normals()  # compiled here if necessary, before the steps are timed

    def block_length(self, dim: int) -> int:
        """Return how many steps to draw at once, from the numbers of one chain, never from the number of chains."""
        numbers = max(sum(slot.numbers for slot in self.slots), dim)
        return max(1, min(NOISE_BLOCK, NOISE_BLOCK_NUMBERS // numbers))

    def draw(self, steps: int, *, heated: bool) -> list[torch.Tensor]:
        """Return a tensor (steps, C, ...) for each slot; at T = 0 (`heated` false) a 0-dim zero stands for normals."""
        return [self._draw(slot, steps, heated=heated) for slot in self.slots]

    def _draw(self, slot: Slot, steps: int, *, heated: bool) -> torch.Tensor:
        import torch

        first = self.generators[0]
        device = first.device if isinstance(first, torch.Generator) else torch.device("cpu")
        if slot.kind == "normal" and not heated:
            return torch.zeros((), dtype=slot.dtype, device=device)
        drawn = torch.empty((sum(self.chains), steps, *slot.shape), dtype=slot.dtype, device=device)
        if isinstance(first, torch.Generator):
            for generator, chains in zip(self.generators, drawn.split(self.chains), strict=True):
                _fill(chains, slot.kind, generator)
        else:
            numbers, stop = drawn.numpy(), 0
            for generator, count in zip(self.generators, self.chains, strict=True):
                start, stop = stop, stop + count
                fill = generator.standard_normal if slot.kind == "normal" else generator.random
                fill(out=numbers[start:stop], dtype=numbers.dtype)
        return drawn.transpose(0, 1)

    def state(self) -> torch.Tensor:
        """Return the states of the chains' generators, (C, bytes) uint8."""
        import torch

        return states(self.generators).repeat_interleave(torch.tensor(self.chains), 0)

    def load(self, state: torch.Tensor) -> None:
        """Set the generators to the states in `state`."""
        load_states(self.generators, [rows[0] for rows in state.split(self.chains)])


class HalvedNoise:
    """The noise of two steps for each step of `whole`, with the same Brownian path.

    With a normal x of a step and another one y, of the stream `fresh`, the two steps have (x + y) / sqrt 2 and
    (x - y) / sqrt 2: independent normals whose sum is sqrt 2 x (Levy's construction). Of a uniform, the first step has
    that of `whole`, the second one of `fresh`.
    """

    def __init__(self, whole: ChainNoise | HalvedNoise, fresh: ChainNoise) -> None:
        self.whole, self.fresh, self.slots = whole, fresh, fresh.slots

    def block_length(self, dim: int) -> int:
        """Return twice the number of steps of `whole`, so that it draws the blocks that it draws alone."""
        return 2 * self.whole.block_length(dim)

    def draw(self, steps: int, *, heated: bool) -> list[torch.Tensor]:
        """Return what `ChainNoise.draw` does, for an even number of steps."""
        drawn = (noise.draw(steps // 2, heated=heated) for noise in (self.whole, self.fresh))
        return [self._joined(slot.kind, x, y) for slot, x, y in zip(self.slots, *drawn, strict=True)]

    @staticmethod
    def _joined(kind: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        import torch

        if not x.ndim:  # nothing is drawn
            return x
        pair = ((x + y) * math.sqrt(0.5), (x - y) * math.sqrt(0.5)) if kind == "normal" else (x, y)
        return torch.stack(pair, 1).flatten(0, 1)

    def state(self) -> torch.Tensor:
        """Return the states of the chains' generators, (C, bytes) uint8."""
        import torch

        return torch.cat([self.whole.state(), self.fresh.state()], 1)

    def load(self, state: torch.Tensor) -> None:
        """Set the generators to the states in `state`."""
        width = self.fresh.state().shape[1]
        self.whole.load(state[:, :-width])
        self.fresh.load(state[:, -width:])


def chain_noise(
    streams: Sequence[Streams], device: str, dtype: DType, slots: Sequence[Slot], substeps: int = 1
) -> ChainNoise | HalvedNoise:
    """Return the noise of chains whose steps are `substeps` (a power of two) for each step of a schedule."""
    if substeps == 1:
        return ChainNoise(noise_generators(streams, device, dtype), slots)
    fresh = ChainNoise(noise_generators(streams, device, dtype, f"noise of {substeps} substeps"), slots)
    return HalvedNoise(chain_noise(streams, device, dtype, slots, substeps // 2), fresh)


def _fill(out: torch.Tensor, kind: str, generator: torch.Generator) -> None:
    """Fill `out` with standard normals or with uniforms on [0, 1)."""
    if _may_be_fast(kind, out.dtype, generator) and out.numel() >= LONG:
        fast = _fast_normals()
        if fast is not None:
            fast(out, generator)
            return
    out.normal_(generator=generator) if kind == "normal" else out.uniform_(generator=generator)


def _may_be_fast(kind: str, dtype: DType, generator: Generator) -> bool:
    """Return whether `_fast_normals` can draw numbers of this kind, if there are many."""
    import torch

    on_cpu = isinstance(generator, torch.Generator) and generator.device.type == "cpu"
    return kind == "normal" and dtype == torch.float32 and on_cpu


@functools.cache
def _fast_normals() -> Callable[[torch.Tensor, torch.Generator], None] | None:
    """Return a function that draws float32 normals as `normal_` does, the same bits in a third of the time, or None."""
    import torch

    code = compiled(NORMALS)
    if code is None:
        return None

    def fill(out: torch.Tensor, generator: torch.Generator) -> None:
        state = generator.get_state()
        code.draw(ctypes.c_void_p(state.data_ptr()), ctypes.c_void_p(out.data_ptr()), ctypes.c_long(out.numel()))
        generator.set_state(state)

    # What torch computes depends on its version and on the processor, so a sample decides.
    generators = [torch.Generator().manual_seed(5) for _ in range(2)]
    sample, wanted = torch.empty(2, 100_003)
    fill(sample, generators[0])
    wanted.normal_(generator=generators[1])
    same = torch.equal(sample, wanted) and torch.equal(*(g.get_state() for g in generators))
    return fill if same else None


def states(generators: Sequence[Generator]) -> torch.Tensor:
    """Return the states of generators of one kind, (C, bytes) uint8."""
    import numpy as np
    import torch

    if isinstance(generators[0], torch.Generator):
        return torch.stack([g.get_state() for g in generators if isinstance(g, torch.Generator)])
    words = [_sfc64_words(g) for g in generators if isinstance(g, np.random.Generator)]
    return torch.from_numpy(np.array(words, dtype=np.uint64).view(np.uint8))


def load_states(generators: Sequence[Generator], state: Iterable[torch.Tensor]) -> None:
    """Set generators to the states that `states` returned."""
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
    """Return the four words of SFC64, whether a half word is left over, and that half word."""
    state: Any = generator.bit_generator.state
    return [*state["state"]["state"].tolist(), state["has_uint32"], state["uinteger"]]


@dataclass(frozen=True)
class Slot:
    """One request for noise in a step: its kind, its shape without the chain axis, and its dtype."""

    kind: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def numbers(self) -> int:
        """How many numbers a chain draws for it."""
        return math.prod(self.shape)
