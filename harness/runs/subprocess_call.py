"""One function in a child process of its own, for verbs that need torch or plugins' code once and write no attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.runs.local import Listener, born
from harness.runs.worker import serve
from harness.system.errors import BenchError, RunError

Send = Callable[[str, dict[str, Any]], None]


def call(function: str, *arguments: Any, listen: Listener) -> Any:
    """function(*arguments, send) in a child from the forkserver; what it returns comes back by pickle.

    The function is "package.module:name": this process need not import what the child does. `listen(kind, payload)`
    hears what it sends. An error there is raised here, with its exit code. The child ends with this process, and at
    Ctrl-C: a function that writes must write whole files.
    """
    process, ours = born(serve, function, arguments, False)
    try:
        while True:
            try:
                kind, payload = ours.recv()
            except (EOFError, OSError):
                process.join()
                raise RunError(f"the worker exited unexpectedly (exit code {process.exitcode})") from None
            if kind == "end":
                return payload["value"]
            if kind in {"failed", "device lost"}:
                error = BenchError(payload["message"])
                error.exit_code = payload["exit_code"]
                raise error from RuntimeError(payload["traceback"])
            listen(kind, payload)
    finally:
        process.kill()  # it may be stopped, and what it writes it writes whole
        process.join()
