"""Functions of all compiled modes: which blocks need code of their own, and what is reported if none can be made."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from harness.system.arithmetic import libc, processor, variables
from harness.system.cpp import CompilerError, find_compiler, identity
from harness.system.device_errors import chain, lacks_memory, lost_device
from harness.system.errors import BenchError, UsageError

if TYPE_CHECKING:
    from harness.contracts.sampler import Sampler
    from harness.engine.stepping.block import Block


def kind_of(block: Block) -> tuple[bool, ...]:
    """Return the properties of a block that decide whether the code for another block can be used."""
    return block.adapt, *(bool(slot.ndim) for slot in block.noise)


OURS = re.compile("arithmetic-[0-9a-f]{16}")
"""Matches the name of a folder that `tell_compiler` makes in the cache of torch's compiler."""

LONGEST = 2000
"""Most characters of a reason: an error of torch's compiler may quote its code."""


class UncompiledError(UsageError):
    """The steps of a run that is to be compiled cannot be compiled, so that it does not start.

    scope   for whom this holds: "step" for every machine, because the step cannot be written as code; "compiler" for
            this compiler; "moment" for now, for example because the disk is full
    breach  whether the step does something that no step may do
    """

    def __init__(self, sampler: Sampler, error: BaseException) -> None:
        from harness.engine.stepping.lanes import Breach  # which needs torch

        said = str(error) if isinstance(error, CompilerError) else reasons(error)
        self.reason = " ".join(said.split())[:LONGEST]
        self.breach = isinstance(error, Breach)
        self.scope = "moment" if isinstance(error, OSError) else "step"
        if isinstance(error, CompilerError):
            self.scope = "compiler" if error.lasting else "moment"
        name = type(sampler).__name__
        super().__init__(f"{name} was not compiled; --set run.compile=plain runs it step by step: {self.reason}")


@contextmanager
def making(sampler: Sampler, failure: Callable[[Sampler, Exception], BenchError] = UncompiledError) -> Iterator[None]:
    """Turn errors in making a sampler's code into a `failure` that tells all reasons.

    A lack of memory and a lost device stay what they are, as do errors with an exit code: for example, a time limit was
    reached, or a step breaks the contract.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's own: no filter that makes them errors may stop it
            yield
    except Exception as error:
        if isinstance(error, BenchError) or lacks_memory(error) or lost_device(error):
            raise
        raise failure(sampler, error) from error


def tell_compiler() -> None:
    """Make torch's compiler as deterministic as this process, and let it use our C++ compiler and compile, or fail.

    Without this a variable of the environment would make it execute what it should compile. Its cache returns code that
    was generated for other instructions, of another process or another machine, and compiles that for the ones here,
    which computes wrong numbers; so everything that decides arithmetic has a cache of its own. This imports the
    compiler, so call it only where it is needed.
    """
    import torch
    import torch._dynamo
    import torch._inductor.config
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    wanted = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(wanted, warn_only=torch.is_deterministic_algorithms_warn_only_enabled())
    torch._dynamo.config.disable = torch._dynamo.config.suppress_errors = False  # noqa: SLF001 - no public name
    os.environ.pop("TORCHDYNAMO_DISABLE", None)
    compiler = dict(identity())
    if compiler:
        torch._inductor.config.cpp.cxx = (shlex.join(find_compiler()),)  # noqa: SLF001
    kept = Path(cache_dir())
    root = kept.parent if OURS.fullmatch(kept.name) else kept
    decides = repr((compiler, processor(), libc(), variables(), torch.get_num_threads()))
    digest = hashlib.sha256(decides.encode()).hexdigest()[:16]
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(root / f"arithmetic-{digest}")


def reasons(error: BaseException) -> str:
    """Return the message of an error, and before it those of the errors that caused it."""
    return "; then ".join(f"{type(cause).__name__}: {str(cause).strip()}" for cause in reversed(chain(error)))
