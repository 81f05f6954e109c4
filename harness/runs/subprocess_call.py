"""Call a function in a child process, for verbs that need torch or plugins' code once and write no attempt."""

from __future__ import annotations

import importlib
import math
import signal
import time
from collections.abc import Callable
from typing import Any

from harness.contracts import plugin_process
from harness.runs.child import serve
from harness.runs.children import born
from harness.system.errors import BenchError, DataError, PluginError, RunError, UsageError
from harness.system.memory import stay_within_free

ERRORS: dict[int, type[BenchError]] = {kind.exit_code: kind for kind in (RunError, UsageError, PluginError, DataError)}
Send = Callable[[str, dict[str, Any]], None]
"""How a child sends a message to its parent: its kind and its content, as (kind, payload)."""
Listener = Callable[[str, dict[str, Any]], None]


SECONDS = 120.0
"""Longest call of a plugin's code. The longest of the built-in plugins, a stability limit with settled adaptive
entries, takes 2 s.
"""


class EndedError(RunError):
    """The child ended without a result. `code` is its exit code."""

    def __init__(self, code: int | None, message: str = "") -> None:
        super().__init__(message or f"the worker exited unexpectedly (exit code {code})")
        self.code = code


def call(function: str, *arguments: Any, listen: Listener, seconds: float | None = None) -> Any:
    """Call function(*arguments, send) in a child from the fork server, and return its result, sent as a pickle.

    The function is given as "package.module:name", so that this process need not import the child's modules.
    `listen(kind, payload)` is called for the messages that it sends. An error in the child is raised here, with its
    exit code. The child ends with this process and at Ctrl-C, so a function that writes must write whole files.

    With `seconds`, the child is killed after that time, whatever it does, and its memory is limited; `EndedError`.
    """
    if seconds is not None:
        function, arguments = f"{__name__}:bounded", (function, arguments)
    process, ours = born(serve, function, arguments, False)
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    try:
        while True:
            if seconds is not None and not ours.poll(max(0.0, deadline - time.monotonic())):
                raise EndedError(-signal.SIGALRM, plugin_process.ending(-signal.SIGALRM, seconds))
            try:
                kind, payload = ours.recv()
            except (EOFError, OSError):
                process.join()
                raise EndedError(process.exitcode) from None
            if kind == "end":
                return payload["value"]
            if kind in {"failed", "device lost"}:
                raise ERRORS[payload["exit_code"]](payload["message"]) from RuntimeError(payload["traceback"])
            listen(kind, payload)
    finally:
        process.kill()  # it may be stopped, and it writes only whole files
        process.join()


def plugin_call(function: str, *arguments: Any) -> Any:
    """Call a function as `call` does, but one that executes a plugin's code and sends nothing, for at most `SECONDS`.

    `EndedError`, which says how the child ended, if it sends no result.
    """
    given = (plugin_process.FILES, SECONDS, function, arguments)
    try:
        return call(f"{__name__}:limited", *given, listen=lambda *_: None)
    except EndedError as error:
        raise EndedError(error.code, plugin_process.ending(error.code, SECONDS)) from error


def bounded(function: str, arguments: tuple[Any, ...], send: Send) -> Any:
    """Return function(*arguments, send), called in this process, whose memory is limited."""
    stay_within_free()
    return _named(function)(*arguments, send)


def _named(function: str) -> Any:
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)


def limited(files: dict[str, str], seconds: float, function: str, arguments: tuple[Any, ...], _send: Send) -> Any:
    """Return function(*arguments), called in this process, which ends if that takes longer than `seconds`."""
    plugin_process.FILES.update(files)
    plugin_process.limit(seconds)
    stay_within_free()
    found = _named(function)(*arguments)
    plugin_process.limit(0)
    return found
