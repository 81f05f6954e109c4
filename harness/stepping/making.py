"""What all compiled modes share: which blocks need code of their own, and what is said where none can be made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.errors import BenchError, PluginError

if TYPE_CHECKING:
    from harness.sampler import Sampler
    from harness.stepping.block import Block


def kind_of(block: Block) -> tuple[bool, ...]:
    """What makes the code for one block differ from that for another."""
    return block.adapt, *(bool(slot.ndim) for slot in block.noise)


@contextmanager
def making(sampler: Sampler) -> Iterator[None]:
    """Make code for a sampler: what goes wrong becomes a `PluginError`, but for want of memory or time."""
    import torch

    try:
        yield
    except (BenchError, torch.OutOfMemoryError, MemoryError):
        raise  # a time limit, say, that ran out meanwhile
    except Exception as error:
        what = str(error).strip().partition("\n")[0]
        raise PluginError(
            f"{type(sampler).__name__} was not compiled ({type(error).__name__}: {what}); "
            "--set run.compile=plain runs it step by step, and compiling needs a C++ compiler"
        ) from error
