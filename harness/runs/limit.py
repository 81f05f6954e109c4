"""The time limit of a block of runs, `--timeout`. It is checked between blocks of steps and enforced within them.

The limit applies to the wall time that the block has worked in total, as its results record it: setup, sampling,
observing and checkpoints, before and after interruptions. Scoring is not limited, so that runs whose sampling is
complete are not lost.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from harness.system.errors import RunError

OVERTIME_SECONDS = 30.0
"""How much longer than its time limit one block of steps may take before it is interrupted."""


class OutOfTimeError(RunError):
    """The runs have worked for longer than their time limit."""


@contextmanager
def interrupted_after(timeout: float | None) -> Iterator[None]:
    """Raise `OutOfTimeError` within a block of steps that does not end, `OVERTIME_SECONDS` after the limit.

    This interrupts Python code, but not a library call that does not return.
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
