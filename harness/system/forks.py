"""Work in forked processes, which inherit what this one has loaded and need not be sent anything."""

from __future__ import annotations

import fcntl
import functools
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")
ROOM = 1 << 20
"""Bytes of a pipe, the most that Linux allows: a process need not wait until its answers are read."""
SILENCE = 60.0
"""Seconds after which a process that has sent nothing is ended: a lock that another thread held may stop it."""


def processors() -> int:
    """Return how many processes can work at once; 1 where none is forked."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def forked(work: Callable[[Any], None]) -> tuple[Any, Any]:
    """Begin `work` in a process that ends with this one; return the pipe that it writes to, and the process.

    `work` gets the other end of the pipe. Torch has one thread there, and Ctrl-C is left to this process.
    """
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):
            fcntl.fcntl(writer.fileno(), fcntl.F_SETPIPE_SZ, ROOM)

    def run() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # the threads of the parent do not exist here
        work(writer)
        writer.close()

    process = context.Process(target=run, daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: see SILENCE
        process.start()
    writer.close()
    return reader, process


class Beside(Generic[T]):
    """A value that a forked process computes while this one goes on."""

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute = compute
        self._begun = forked(self._send) if processors() > 1 else None

    def _send(self, writer: Any) -> None:
        with suppress(Exception, SystemExit):
            writer.send(self._compute())

    @functools.cached_property
    def value(self) -> T:
        """The value. If the process had an error or is silent, it is computed here, which raises the error."""
        answers: list[T] = []
        if self._begun is not None:
            reader, process = self._begun
            with reader, suppress(EOFError, OSError):
                if reader.poll(SILENCE):
                    answers.append(reader.recv())
            process.kill()
            process.join()
        return answers[0] if answers else self._compute()
