"""The mode in which a run is executed: chosen at the plan, stored in the RunSpec, part of the key. No torch here."""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import dataclass
from importlib.util import find_spec

from harness.system.cpp import CompilerError, built
from harness.system.errors import UsageError

COMPILED_FROM = 5_000
"""Number of steps from which a run is compiled unless a setting says otherwise: making the code takes as long as about
2,000 to 5,000 plain steps. `LARGE_COMPILED_FROM` is for steps that are one update."""

LARGE = 100_000
"""Number of parameters of a chain from which a compiled step is one update, without a loop over steps."""

NETWORK = 50_000
"""Number of parameters of a network from which its steps may be compiled by default. They are one update at any size; a
call of it takes 0.2 ms and saves less if the network is smaller."""

LARGE_COMPILED_FROM = 5e9
"""Parameters times chains times steps from which such a run is compiled: for each, a plain update takes 1 to 10 ns more
than a compiled one, and the compilation takes twenty seconds."""

LANES = 8
"""Largest number of chains in a vector: the float64 numbers of the widest registers."""

GPU_COMPILERS = ("gcc", "clang")
"""Compilers with which Triton builds the launch code of its kernels."""

TRIAL = 'extern "C" int trial() { return 1; }'
"""Code that every C++ compiler can build."""


def by_update(dim: int, *, opaque: bool) -> bool:
    """Return whether on a CPU only the update of each step is compiled, for chains of `dim` parameters."""
    return opaque or dim >= LARGE


@dataclass(frozen=True, kw_only=True)
class Work:
    """What the gain by compiled steps depends on: the device, the chains, their parameters, the kind of task.

    dim     parameters of a chain
    opaque  whether the task is a network
    never   the reason why the sampler is never compiled
    """

    device: str = "cpu"
    dim: int = 1
    chains: int = 1
    opaque: bool = False
    never: str | None = None

    @property
    def compiled_from(self) -> float:
        """The least number of steps of a run that is compiled by default; infinite if none is.

        On a GPU the steps of networks and of any task with `LARGE` parameters are recorded, whatever the length of the
        run, because otherwise the GPU waits for Python.
        """
        updates = by_update(self.dim, opaque=self.opaque)
        if self.never is not None:
            return math.inf
        if self.device != "cpu":
            return 1 if updates else math.inf
        if not updates:
            return COMPILED_FROM
        return LARGE_COMPILED_FROM / (self.dim * self.chains) if self.dim >= NETWORK else math.inf


def choose(asked: str | None, steps: int, work: Work = Work()) -> str:
    """Return the mode of a run of `steps` steps; raise `UsageError` if the requested one is impossible on this machine.

    Unless a setting says otherwise, runs of `work.compiled_from` steps or more are compiled. "network" is used only if
    a setting asks for it.
    """
    if asked == "network" and not work.opaque:
        raise UsageError("run.compile = network: the task has no network; ask for compiled, or leave the setting out")
    if asked in {"compiled", "network"} and work.never is not None:
        raise UsageError(f"run.compile = {asked}: the sampler is exempt from the law 'compiled' ({work.never})")
    if asked is None:
        return "compiled" if steps >= work.compiled_from and obstacle(work.device) is None else "plain"
    missing = None if asked == "plain" else obstacle(work.device)
    if missing:
        raise UsageError(f"run.compile = {asked}: {missing}; install it, or leave the setting out")
    return asked


def slowed(asked: str | None, steps: int, work: Work = Work()) -> str | None:
    """Return what this machine lacks if `choose` returns "plain" for this reason alone, otherwise None."""
    return obstacle(work.device) if asked is None and steps >= work.compiled_from else None


def obstacle(device: str = "cpu") -> str | None:
    """Return what this machine lacks for compiling steps that run on a device, or None."""
    if device == "cpu":
        try:
            built(TRIAL)
        except CompilerError as error:
            return f"compiled steps need a C++ compiler that works: {error}"
        return None
    if find_spec("triton") is None:
        return "compiled steps on a GPU need the package triton"
    if named := os.environ.get("CC", "").strip():  # Triton takes all of it for the name of one program
        return None if shutil.which(named) else f"CC = {named!r:.200} is not one program on the PATH, as Triton needs"
    if not any(map(shutil.which, GPU_COMPILERS)):
        return f"compiled steps on a GPU need a C compiler ({', '.join(GPU_COMPILERS)}), and there is none on the PATH"
    return None
