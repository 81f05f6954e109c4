"""A child process that serves this one: it calls a function, sends messages, and ends when its parent does."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import threading
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from harness.contracts.plugin_errors import format_error
from harness.results.ledger.heartbeats import Send
from harness.results.records import Status
from harness.system.device_errors import lacks_memory, lost_device
from harness.system.errors import BenchError, RunError
from harness.system.locks import HeldError
from harness.system.memory import stay_within_free
from harness.system.streams import secure

GRACE_SECONDS = 60.0
"""Time that workers have to end after they were asked to. They check between two blocks of steps, and then write
checkpoints.
"""

unusable = ""
"""Why no child of this fork server can do anything, as `harness.runs.preload` found; "" if it can."""


@dataclass
class Stop:
    """The reason why the worker should end: "cancelled", "preempted" or "orphaned", and "" while it should not."""

    reason: str = ""

    def ask(self, reason: str) -> None:
        """Ask the loop to end before the next block of steps. The first reason is kept."""
        self.reason = self.reason or reason


LAST = ("end", "failed", "device lost")
"""Kinds of messages after which a child sends no other."""


@dataclass(frozen=True)
class Call:
    """What a child does: it calls "package.module:name"(*arguments, send).

    A patient child's function also gets a `Stop`: when its parent dies, it has `GRACE_SECONDS` to stop, and any other
    child ends at once. The memory of a `limited` child is limited.
    """

    function: str
    arguments: tuple[Any, ...]
    patient: bool = False
    limited: bool = False


def serve(call: Call, pipe: Connection) -> None:
    """Carry out a call in a child process. Sends (kind, payload) messages.

    The last one is "end" with the function's return value as `value`, "failed" or "device lost".
    """
    stop = Stop()
    for number in (signal.SIGINT, signal.SIGHUP):  # the launcher handles Ctrl-C and a closed terminal
        signal.signal(number, signal.SIG_IGN)
    if call.patient:
        signal.signal(signal.SIGTERM, lambda *_: stop.ask(Status.PREEMPTED))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # the fork server blocks it
    os.register_at_fork(after_in_child=pipe.close)  # a process that a plugin left behind must not keep it open
    threading.Thread(target=_watch, args=(pipe, stop, call.patient), daemon=True).start()
    send = _sender(pipe)
    os.dup2(2, 1)  # what a plugin prints must not mix with results on stdout
    secure()
    try:
        _check_usable()
        if call.limited:
            stay_within_free()
        module, _, name = call.function.partition(":")
        work, last = getattr(importlib.import_module(module), name), (send, stop) if call.patient else (send,)
        send("end", {"value": work(*call.arguments, *last)})
    except BaseException as error:  # noqa: BLE001 - the launcher must be told of any error
        send(*last_message(error))


def last_message(error: BaseException) -> tuple[str, dict[str, Any]]:
    """Return the message with which a child ends that an error has ended, with the exit code of the command."""
    code, lost = 1, lost_device(error)
    if lost is not None:
        message = format_error(lost)
    elif isinstance(error, BenchError):
        message, code = str(error), error.exit_code
    else:
        what = "not enough memory" if lacks_memory(error) else "worker failed"
        message = f"{what}: {format_error(error).removeprefix('MemoryError: ')}"
    trace = "".join(traceback.format_exception(error))
    payload = {"message": message, "exit_code": code, "held": isinstance(error, HeldError), "traceback": trace}
    return "failed" if lost is None else "device lost", payload


def _check_usable() -> None:
    if unusable:
        raise RunError(unusable)


def _watch(pipe: Connection, stop: Stop, patient: bool = True) -> None:  # noqa: FBT001, FBT002 - a thread's target
    """Ask the worker to stop at a message, which gives the reason, or at end of file, when the parent is dead.

    Kill the process after the grace time.
    """
    reason: str = Status.CANCELLED
    with contextlib.suppress(EOFError, OSError):
        reason = pipe.recv()
    stop.ask(reason)
    time.sleep(GRACE_SECONDS if patient else 0)
    os.kill(os.getpid(), signal.SIGKILL)


def _sender(pipe: Connection) -> Send:
    lock = threading.Lock()

    def send(kind: str, payload: dict[str, Any]) -> None:
        try:
            with lock:
                pipe.send((kind, payload))
        except OSError:
            return  # the parent is dead, and `_watch` stops this process

    return send
