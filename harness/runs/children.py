"""Child processes from a fork server that has imported torch and never touches CUDA, and their messages.

Workers are children, and so are calls of a function that needs torch or plugins' code once and writes no attempt.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import harness
from harness.contracts import plugin_process, user_files
from harness.contracts.plugin_errors import format_error
from harness.results.ledger.heartbeats import Send
from harness.runs.child import LAST, Call, serve
from harness.system.cpp import CompilerError, built
from harness.system.errors import BenchError, DataError, PluginError, RunError, UsageError, exit_text
from harness.system.import_path import passed_on
from harness.system.memory import memory_limit

GIB_TO_RUN = 4
"""Address space that a worker with torch needs, in GiB. On two cores 3 to 4 were measured."""
SOCKET_PATH = 107
"""Most bytes of a socket's path on Linux: the size of sun_path in unix(7) without the zero at its end."""
SECONDS = 120.0
"""Longest call of a plugin's code. The longest of the built-in plugins, a stability limit with settled adaptive
entries, takes 2 s.
"""
ERRORS: dict[int, type[BenchError]] = {kind.exit_code: kind for kind in (RunError, UsageError, PluginError, DataError)}
DIAGNOSTICS = Path(harness.__file__).parent / "analysis/diagnostics"
MEASURES = tuple(DIAGNOSTICS / name for name in ("counting.cpp", "assignment.cpp"))
"""C++ source that observers need: for all tasks except networks, and for mixtures. They take longer to compile than a
smoke run takes.
"""


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
    if limit := memory_limit(GIB_TO_RUN):
        raise RunError(f"too little memory for a worker; {limit}")
    _check_socket_path()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["harness.runs.preload"])
    with passed_on():
        resource_tracker.ensure_running()  # it would unblock the signal again
        with plugin_process.blocked(signal.SIGINT, signal.SIGTERM):
            forkserver.ensure_running()
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
    """Start to compile `MEASURES` in a thread, unless they are in the cache."""

    def work() -> None:
        with contextlib.suppress(CompilerError, OSError):  # observers work without it
            for source in MEASURES:
                built(source.read_text(encoding="utf-8"))

    threading.Thread(target=work, daemon=True).start()


def _with_files(known: tuple[Any, ...], target: Callable[..., None], *arguments: Any) -> None:
    """Call target(*arguments) in a child, which finds the plugin files and files of the user that its parent knows."""
    user_files.FOLDERS[:], user_files.KNOWN, plugins = known
    plugin_process.FILES.update(plugins)
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
        known = user_files.FOLDERS, user_files.KNOWN, plugin_process.FILES
        process = context.Process(target=_with_files, args=(known, target, *arguments, theirs), daemon=True)
        _compile_meanwhile()
        with without_main():
            process.start()  # waits until the fork server has imported torch
    atexit.unregister(_end_unused)
    return process, ours


@dataclass(kw_only=True)
class Child:
    """A child process and our end of its pipe. `ended` says whether its last message has come."""

    process: BaseProcess
    pipe: Connection
    ended: bool = False

    def receive(self) -> tuple[str, dict[str, Any]] | None:
        """Return its next message, or None if it has closed its end of the pipe."""
        try:
            kind, payload = self.pipe.recv()
        except (EOFError, OSError):
            return None
        self.ended = self.ended or kind in LAST
        return kind, payload


class EndedError(RunError):
    """The child ended without a result. `code` is its exit code."""

    def __init__(self, code: int | None, message: str = "") -> None:
        super().__init__(message or f"the worker exited unexpectedly ({exit_text(code)})")
        self.code = code


def call(function: str, *arguments: Any, listen: Send, seconds: float | None = None) -> Any:
    """Call function(*arguments, send) in a child from the fork server, and return its result, sent as a pickle.

    The function is given as "package.module:name", so that this process need not import the child's modules.
    `listen(kind, payload)` is called for the messages that it sends. An error in the child is raised here, with its
    exit code. The child ends with this process and at Ctrl-C, so a function that writes must write whole files.

    With `seconds`, the child is killed after that time, whatever it does, and its memory is limited; `EndedError`.
    """
    process, pipe = born(serve, Call(function, arguments, limited=seconds is not None))
    child, deadline = Child(process=process, pipe=pipe), math.inf if seconds is None else time.monotonic() + seconds
    try:
        while True:
            if seconds is not None and not pipe.poll(max(0.0, deadline - time.monotonic())):
                raise EndedError(-signal.SIGALRM, plugin_process.ending(-signal.SIGALRM, seconds))
            message = child.receive()
            if message is None:
                process.join()
                raise EndedError(process.exitcode)
            kind, payload = message
            if kind == "end":
                return payload["value"]
            if kind in LAST:
                raise ERRORS[payload["exit_code"]](payload["message"]) from RuntimeError(payload["traceback"])
            listen(kind, payload)
    finally:
        process.kill()  # it may be stopped, and it writes only whole files
        process.join()


def plugin_call(function: str, *arguments: Any) -> Any:
    """Call a function as `call` does, but one that executes a plugin's code and sends nothing, for at most `SECONDS`.

    `EndedError`, which says how the child ended, if it sends no result.
    """
    try:
        return call(function, *arguments, listen=lambda *_: None, seconds=SECONDS)
    except EndedError as error:
        raise EndedError(error.code, plugin_process.ending(error.code, SECONDS)) from error
