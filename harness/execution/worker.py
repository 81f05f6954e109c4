"""The worker: one child process for one block of runs that differ only in their seed. Holds the locks, writes attempts.

It never opens the store. When its parent dies or asks it to stop, it writes checkpoints and ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness.errors import BenchError, DataError, UsageError
from harness.ledger.ledger import Ledger
from harness.ledger.locks import HeldError, hold
from harness.spec import RunSpec

CHECKPOINT_SECONDS = 60.0
LAST_CHECKPOINT_SECONDS = 10.0
PROGRESS_SECONDS = 0.2
PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Job:
    """What a worker is given: runs of one block, where to write, where to compute."""

    specs: Sequence[RunSpec]
    results: Path
    device: str
    slot: str
    threads: int = 1
    plugins: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    data: Sequence[Any] = ()
    measure_steps: int = 0


@dataclass
class Stop:
    """Why the worker should end: "" while it should not, else "cancelled" or "preempted"."""

    reason: str = ""

    def ask(self, reason: str) -> None:
        """Ask the loop to end at the next block."""
        self.reason = self.reason or reason


def work(job: Job, pipe: Connection) -> None:
    """Entry point of the child process. Sends (kind, payload) messages; the last one is ("end", ...)."""
    stop = Stop()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: stop.ask("preempted"))
    threading.Thread(target=_watch, args=(pipe, stop), daemon=True).start()
    send = _sender(pipe)
    os.dup2(2, 1)  # what a plugin prints must not mix with results on stdout
    try:
        with ExitStack() as stack:
            _run(job, stack, stop, send)
        send("end", {})
    except BenchError as error:
        send("failed", {"message": str(error), "exit_code": error.exit_code, "held": isinstance(error, HeldError)})
    except Exception as error:  # noqa: BLE001 - whatever it was, the launcher must hear of it
        message = f"worker failed: {type(error).__name__}: {error}"
        send("failed", {"message": message, "exit_code": 1, "held": False, "traceback": traceback.format_exc()})


def _watch(pipe: Connection, stop: Stop) -> None:
    """End of file means that the parent is dead; a message is its wish to stop."""
    with contextlib.suppress(EOFError, OSError):
        pipe.recv()
    stop.ask("cancelled")


def _sender(pipe: Connection) -> Callable[[str, dict[str, Any]], None]:
    def send(kind: str, payload: dict[str, Any]) -> None:
        try:
            pipe.send((kind, payload))
        except OSError:
            return  # the parent is gone; the watcher knows

    return send


def _run(job: Job, stack: ExitStack, stop: Stop, send: Callable[[str, dict[str, Any]], None]) -> None:
    ledger = Ledger(job.results)
    if job.device != "cpu":
        stack.enter_context(hold(ledger.lock(job.slot.replace(":", "-")), PATIENCE_SECONDS))
    specs = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    for spec in sorted(job.specs, key=lambda spec: spec.key):  # in one order, so that two launchers cannot cross
        try:
            stack.enter_context(hold(ledger.lock(spec.key), max(0.0, deadline - time.monotonic())))
        except HeldError as error:
            send("held", {"key": spec.key, "message": str(error)})
            continue
        standing = ledger.standing(spec.key)
        if standing.cached:  # finished by another launcher while this one waited
            send("finished", {"key": spec.key, "status": standing.status, "reason": standing.reason})
        else:
            specs.append(spec)
    specs.sort(key=lambda spec: spec.seed)
    if not specs:
        return

    import torch

    from harness.execution.session import Session

    _check_device(job.device, torch.cuda.device_count())
    torch.set_num_threads(job.threads)
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(specs[0].deterministic, warn_only=True)
    _load_plugins(job)
    _check_data(job)
    if job.measure_steps:
        send("rate", {"steps_per_second": Session.measure(specs, job)})
        return
    for session in Session.open_all(ledger, specs, job, send):
        _advance(session, stop, send)
        if stop.reason:
            return


def _check_device(device: str, gpus: int) -> None:
    kind, _, number = device.partition(":")
    if kind == "cuda" and int(number or 0) >= gpus:
        raise UsageError(f"--devices {device}: torch sees {gpus} GPUs on this machine; `bench doctor` says more")


def _load_plugins(job: Job) -> None:
    from harness.registry import registry

    if job.plugins:
        registry(job.plugins)


def _check_data(job: Job) -> None:
    from harness.data import locate

    for file in job.data:
        locate(file)


def _advance(session: Any, stop: Stop, send: Callable[[str, dict[str, Any]], None]) -> None:
    """Drive a session to its end, telling the launcher how far it is, writing checkpoints by the clock."""
    saved = told = time.monotonic()
    try:
        while not session.finished and not stop.reason:
            session.advance()
            now = time.monotonic()
            if now - told > PROGRESS_SECONDS or session.finished:
                send("progress", session.progress())
                told = now
            if now - saved > CHECKPOINT_SECONDS:
                session.checkpoint()
                saved = time.monotonic()
        if session.finished:
            if time.monotonic() - saved > LAST_CHECKPOINT_SECONDS:
                session.checkpoint()  # so that a kill while scoring repeats little
            session.conclude()
        else:
            session.suspend(stop.reason)
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - the runs of this block failed; their rows say how
        session.fail(error, traceback.format_exc())
