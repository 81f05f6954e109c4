"""The time limit of a block of runs, `--timeout`: checked between blocks of steps, enforced within them.

What counts is the wall time that the block has worked in all, as its results record it: setup, sampling, observing and
checkpoints, before and after interruptions. Scoring is not limited: what is sampled to the end is not thrown away.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from harness.system.errors import RunError

OVERTIME_SECONDS = 30.0
"""How much longer than its time limit one block of steps may take before it is interrupted."""


class OutOfTimeError(RunError):
    """The runs have worked for longer than they may."""


@contextmanager
def interrupted_after(timeout: float | None) -> Iterator[None]:
    """Raise `OutOfTimeError` within a block that does not end, some time after the limit checked between blocks.

    It interrupts Python code, not a call into a library that does not return.
    """
    if timeout is None:
        yield
        return

    def interrupt(*_: object) -> None:
        raise OutOfTimeError(f"interrupted within a step: --timeout was {timeout:g} s")

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, timeout + OVERTIME_SECONDS, OVERTIME_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
