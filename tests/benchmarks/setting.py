"""What is measured: the same target, step sizes and checks for every library. Imports no torch and no jax."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

BATCH = 64
FRICTION = 0.1
LEAPFROG = 10


@dataclass(frozen=True)
class Case:
    """One thing to time. `form` is how the library is used, "" where there is one way; `task` is one of `targets`."""

    library: str
    method: str
    chains: int
    form: str = ""
    task: str = "mixture25"
    dtype: str = "float64"

    @property
    def name(self) -> str:
        extra = [self.form] if self.form else []
        extra += [self.dtype] if self.dtype != "float64" else []
        return f"{self.library} ({', '.join(extra)})" if extra else self.library

    @property
    def extra(self) -> bool:
        """Whether it is a row beside the main ones."""
        return self.dtype != "float64" or self.form.endswith("observed")

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "name": self.name}

    @classmethod
    def of_json(cls, fields: dict[str, object]) -> Case:
        return cls(**{name: value for name, value in fields.items() if name != "name"})  # type: ignore[arg-type]


HELD = 2**30
"""Bytes of memory that a measured process writes to before it is measured."""


def pin() -> None:
    """Bind this process and its libraries to one core and one thread, where the system can, and write to its memory.

    On a virtual machine the first write to a page may wait for the host, up to ten times as long as the work on it
    takes. Freed memory stays with the process, so what it needs later has been written to before.
    """
    from harness.system.memory import keep_freed

    keep_freed()
    bytes([1]) * HELD  # allocated, written to, and freed
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
