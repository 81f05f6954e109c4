"""Functions of all compiled modes: which blocks need code of their own, and what is reported if none can be made."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.system.errors import BenchError, PluginError
from harness.system.memory import lacks_memory

if TYPE_CHECKING:
    from harness.contracts.sampler import Sampler
    from harness.engine.stepping.block import Block


def kind_of(block: Block) -> tuple[bool, ...]:
    """Return the properties of a block that decide whether the code for another block can be used."""
    return block.adapt, *(bool(slot.ndim) for slot in block.noise)


@contextmanager
def making(sampler: Sampler, how: str = "compiled") -> Iterator[None]:
    """Turn errors in making a sampler's code into a `PluginError` with all reasons, except lack of memory or time."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # hints from the compiler, for example about TF32
            yield
    except Exception as error:
        if isinstance(error, BenchError) or lacks_memory(error):  # BenchError: for example, a time limit was reached
            raise
        raise PluginError(
            f"{type(sampler).__name__} was not {how}; --set run.compile=plain runs it step by step. "
            f"The reason: {_reasons(error)}"
        ) from error


def tell_compiler() -> None:
    """Make torch's compiler as deterministic as this process; this imports it, so call it only where it is needed."""
    import torch

    wanted = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(wanted, warn_only=torch.is_deterministic_algorithms_warn_only_enabled())


def _reasons(error: BaseException) -> str:
    """Return the message of an error, and before it those of the errors that caused it."""
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    message = f"{type(error).__name__}: {str(error).strip()}"
    return f"{_reasons(earlier)}; then {message}" if earlier is not None else message
