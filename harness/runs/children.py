"""Where child processes come from: a fork server that has imported torch and never touches CUDA."""

from __future__ import annotations

import atexit
import contextlib
import functools
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import harness
from harness.contracts.plugin_errors import format_error
from harness.system.cpp import CompilerError, built
from harness.system.errors import BenchError, RunError, UsageError
from harness.system.import_path import passed_on
from harness.system.memory import memory_limit

GIB_TO_RUN = 4
"""Of address space that a worker with torch needs; measured on two cores: 3 to 4."""
SOCKET_PATH = 107
"""Most bytes of a socket's path on Linux: sun_path of unix(7), without the zero at its end."""
COUNTING = Path(harness.__file__).parent / "analysis/diagnostics/counting.cpp"
"""What observers of all tasks but networks need, and whose compilation takes as long as a smoke run."""


def start_early() -> None:
    """Let the fork server import torch while this process prepares what it will need children for.

    An error is raised when the first child is asked for. If none is, the fork server is killed with this process.
    """
    with contextlib.suppress(BenchError, OSError):
        forkserver_context()
        atexit.register(_end_unused)


def _end_unused() -> None:
    if (server := fork_server()) is not None:
        with contextlib.suppress(OSError):
            os.kill(server, signal.SIGKILL)


def fork_server() -> int | None:
    """The process id of the fork server; None where there is none, or this Python keeps it elsewhere."""
    return getattr(getattr(forkserver, "_forkserver", None), "_forkserver_pid", None)


def forkserver_context() -> Any:
    """Where children come from. It blocks Ctrl-C and SIGTERM, which this process answers, by the mask it inherits.

    If it died of the SIGTERM that a scheduler sends to the whole group, its workers would seem to have died with it.
    """
    if found := memory_limit(GIB_TO_RUN):
        raise RunError(f"too little memory for a worker; {found}")
    _check_socket_path()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["harness.runs.preload"])
    with passed_on():
        resource_tracker.ensure_running()  # it would unblock the signal again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def _check_socket_path() -> None:
    """Raise `UsageError` where the folder of temporary files is too deep for the sockets that multiprocessing makes."""
    folder, most = tempfile.gettempdir(), SOCKET_PATH - len("/pymp-12345678/listener-12345678")
    if len(os.fsencode(folder)) > most:
        raise UsageError(f"TMPDIR is longer than {most} bytes, too long for a socket: {folder}; set a shorter one")


def born(target: Callable[..., None], *arguments: Any) -> tuple[Any, Connection]:
    """A child that runs target(*arguments, pipe), and our end of the pipe. A fork server that died is replaced."""
    try:
        return _born(target, arguments)
    except (EOFError, OSError):
        try:
            return _born(target, arguments)
        except (EOFError, OSError) as error:
            hint = memory_limit() or "what else the system says may tell why"
            raise RunError(f"no worker can be started ({format_error(error)}); {hint}") from error


@functools.cache
def _compile_meanwhile() -> None:
    """Begin to compile `COUNTING`, where it is not in the cache."""

    def work() -> None:
        with contextlib.suppress(CompilerError, OSError):  # observers do without
            built(COUNTING.read_text(encoding="utf-8"))

    threading.Thread(target=work, daemon=True).start()


def _born(target: Callable[..., None], arguments: tuple[Any, ...]) -> tuple[Any, Connection]:
    context = forkserver_context()
    ours, theirs = context.Pipe()
    with theirs:
        process = context.Process(target=target, args=(*arguments, theirs), daemon=True)
        _compile_meanwhile()
        process.start()  # waits until the fork server has imported torch
    atexit.unregister(_end_unused)
    return process, ours
