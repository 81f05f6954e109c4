"""Start child processes from a fork server that has imported torch and never touches CUDA."""

from __future__ import annotations

import atexit
import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Iterator
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import harness
from harness.contracts import user_files
from harness.contracts.plugin_errors import format_error
from harness.system.cpp import CompilerError, built
from harness.system.errors import BenchError, RunError, UsageError
from harness.system.import_path import passed_on
from harness.system.memory import memory_limit

GIB_TO_RUN = 4
"""Address space that a worker with torch needs, in GiB. On two cores 3 to 4 were measured."""
SOCKET_PATH = 107
"""Most bytes of a socket's path on Linux: the size of sun_path in unix(7) without the zero at its end."""
COUNTING = Path(harness.__file__).parent / "analysis/diagnostics/counting.cpp"
"""C++ source that observers need for all tasks except networks. Its compilation takes as long as a smoke run."""


def start_early() -> None:
    """Start the fork server, so that it imports torch while this process prepares the work of its children.

    An error is raised only when the first child is started. If none is, the fork server is killed at the end of this
    process.
    """
    with contextlib.suppress(BenchError, OSError):
        forkserver_context()
        atexit.register(_end_unused)


def _end_unused() -> None:
    if (server := fork_server()) is not None:
        with contextlib.suppress(OSError):
            os.kill(server, signal.SIGKILL)


def fork_server() -> int | None:
    """Return the process id of the fork server, or None if there is none or this Python stores it elsewhere."""
    return getattr(getattr(forkserver, "_forkserver", None), "_forkserver_pid", None)


def forkserver_context() -> Any:
    """Return the multiprocessing context of the fork server, which is started if necessary.

    The fork server inherits a signal mask that blocks Ctrl-C and SIGTERM, which this process handles. If it died of the
    SIGTERM that a scheduler sends to the whole process group, its workers would seem to have died too.
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
    """Raise `UsageError` if the path of the temporary folder is too long for the sockets of multiprocessing."""
    folder, most = tempfile.gettempdir(), SOCKET_PATH - len("/pymp-12345678/listener-12345678")
    if len(os.fsencode(folder)) > most:
        raise UsageError(f"TMPDIR is longer than {most} bytes, too long for a socket: {folder}; set a shorter one")


def born(target: Callable[..., None], *arguments: Any) -> tuple[Any, Connection]:
    """Start a child that runs target(*arguments, pipe). Returns the process and our end of the pipe.

    A fork server that died is replaced. `RunError` if no child can be started.
    """
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
    """Start to compile `COUNTING` in a thread, if it is not in the cache."""

    def work() -> None:
        with contextlib.suppress(CompilerError, OSError):  # observers work without it
            built(COUNTING.read_text(encoding="utf-8"))

    threading.Thread(target=work, daemon=True).start()


def _with_files(known: tuple[list[Path], dict[str, str]], target: Callable[..., None], *arguments: Any) -> None:
    """Call target(*arguments) in a child, which finds the files of the user that its parent knows."""
    user_files.FOLDERS[:], user_files.KNOWN = known
    target(*arguments)


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Hide the main module: a child would execute a script again that has no `if __name__ == "__main__"`."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _born(target: Callable[..., None], arguments: tuple[Any, ...]) -> tuple[Any, Connection]:
    context = forkserver_context()
    ours, theirs = context.Pipe()
    with theirs:
        known = user_files.FOLDERS, user_files.KNOWN
        process = context.Process(target=_with_files, args=(known, target, *arguments, theirs), daemon=True)
        _compile_meanwhile()
        with without_main():
            process.start()  # waits until the fork server has imported torch
    atexit.unregister(_end_unused)
    return process, ours
