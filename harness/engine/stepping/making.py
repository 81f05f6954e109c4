"""What all compiled modes share: which blocks need code of their own, and what is said where none can be made."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.system.errors import BenchError, PluginError

if TYPE_CHECKING:
    from harness.contracts.sampler import Sampler
    from harness.engine.stepping.block import Block


def kind_of(block: Block) -> tuple[bool, ...]:
    """What makes the code for one block differ from that for another."""
    return block.adapt, *(bool(slot.ndim) for slot in block.noise)


@contextmanager
def making(sampler: Sampler, how: str = "compiled") -> Iterator[None]:
    """Make code for a sampler: errors become a `PluginError` with the whole reason, except lack of memory or time."""
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # hints of the compiler, of TF32 among them
            yield
    except (BenchError, torch.OutOfMemoryError, MemoryError):
        raise  # a time limit, for example, that ran out meanwhile
    except Exception as error:
        raise PluginError(
            f"{type(sampler).__name__} was not {how}; --set run.compile=plain runs it step by step. "
            f"The reason: {_reasons(error)}"
        ) from error


def tell_compiler() -> None:
    """Make torch's compiler as deterministic as this process is; it is imported here, and only where it is needed."""
    import torch

    wanted = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(wanted, warn_only=torch.is_deterministic_algorithms_warn_only_enabled())


def _reasons(error: BaseException) -> str:
    """What an error says, and before it what the errors say that it came from."""
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    said = f"{type(error).__name__}: {str(error).strip()}"
    return f"{_reasons(earlier)}; then {said}" if earlier is not None else said
