"""One function in a child process of its own, for verbs that need torch or plugins' code once and write no attempt."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from harness.runs.local import Listener, born
from harness.system.errors import BenchError, RunError

Send = Callable[[str, dict[str, Any]], None]


def call(function: str, *arguments: Any, listen: Listener) -> Any:
    """function(*arguments, send) in a child from the forkserver; what it returns comes back by pickle.

    The function is "package.module:name": this process need not import what the child does. `listen(kind, payload)`
    hears what it sends. An error there is raised here, with its exit code. The child ends with this process, and at
    Ctrl-C: a function that writes must write whole files.
    """
    process, ours = born(_serve, function, arguments)
    try:
        while True:
            try:
                kind, payload = ours.recv()
            except (EOFError, OSError):
                process.join()
                raise RunError(f"the worker died (exit code {process.exitcode})") from None
            if kind == "returned":
                return payload
            if kind == "raised":
                error = BenchError(payload["message"])
                error.exit_code = payload["exit_code"]
                raise error from RuntimeError(payload["trace"])
            listen(kind, payload)
    finally:
        process.kill()  # it may be stopped, and what it writes it writes whole
        process.join()


def _serve(function: str, arguments: tuple[Any, ...], pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # the fork server blocks it
    threading.Thread(target=_watch, args=(pipe,), daemon=True).start()
    os.dup2(2, 1)  # what a plugin prints must not mix with results on stdout
    try:
        from harness.runs import preload

        preload.check()
        module, _, name = function.partition(":")
        work = getattr(importlib.import_module(module), name)
        answer = "returned", work(*arguments, lambda kind, payload: pipe.send((kind, payload)))
    except BenchError as error:
        answer = "raised", {"message": str(error), "exit_code": error.exit_code, "trace": traceback.format_exc()}
    except Exception as error:  # noqa: BLE001 - whatever it was, the launcher must hear of it
        text = f"{type(error).__name__}: {error}"
        answer = "raised", {"message": text, "exit_code": 1, "trace": traceback.format_exc()}
    pipe.send(answer)


def _watch(pipe: Connection) -> None:
    """End of file means that the parent is dead."""
    with contextlib.suppress(EOFError, OSError):
        pipe.recv()
    os._exit(1)
