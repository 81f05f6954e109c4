"""The worker: one child process for one block of runs that differ only in their seed, or for the repetition of a run.

It holds the locks of the runs and writes their attempts. It never opens the store. When its parent dies or asks it to
stop, it writes checkpoints and ends.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness.engine.stepping.making import UncompiledError
from harness.results.ledger.commit import settle
from harness.results.ledger.heartbeats import Notice, Send, ranges
from harness.results.ledger.ledger import Ledger
from harness.results.records import Status
from harness.results.spec import RunSpec
from harness.runs.child import Stop
from harness.runs.job import LOCK_TIMEOUT_SECONDS, Job, device_held, prepare
from harness.runs.limit import interrupted_after
from harness.runs.uncompiled import asked_mode
from harness.system.device_errors import lost_device
from harness.system.errors import DataError
from harness.system.locks import HeldError, Lock
from harness.system.text import seconds_set

CHECKPOINT_SECONDS = 300.0
"""Time between two checkpoints, unless BENCH_CHECKPOINT_SECONDS sets another."""
CYCLE_SECONDS = 10.0
"""Least time between a checkpoint and one that is written at the end of a cycle or of the run."""
PROGRESS_SECONDS = 0.2
LEAST_LOCK_TIMEOUT_SECONDS = 0.5
"""Least time to wait for a lock: a process that only tests whether it is held must not be mistaken for its holder."""


def run(job: Job, send: Send, stop: Stop) -> None:
    """Do the runs of a job that are not finished yet."""
    with ExitStack() as stack:
        _run(job, stack, stop, send)


def _run(job: Job, stack: ExitStack, stop: Stop, send: Send) -> None:
    ledger = Ledger(job.results)
    stack.enter_context(device_held(job.device))
    specs, locks = _hold(job, ledger, stack, send)
    if not specs:
        return
    notice = stack.enter_context(Notice(ledger.locks / f"{specs[0].key}.notice"))
    notice.update(_labels(specs, job.device))
    prepare(job)
    from harness.runs.session import Session  # imports torch

    try:
        for session in Session.open_all(ledger, specs, job, send):
            attempt = str(session.attempts[0].path.relative_to(ledger.root))
            notice.update({**_labels(session.specs, job.device), "attempt": attempt})
            session.locks = [locks.pop(spec.key) for spec in session.specs]
            _advance(session, stop, notice.hearing(send), job.timeout)
            if stop.reason or session.unusable:
                return
    except UncompiledError as error:
        if asked_mode(specs[0]) is not None:
            raise
        for spec in specs:
            if spec.key in locks:  # those of other runs were given to their sessions
                send("uncompiled", {"key": spec.key, "reason": error.reason, "scope": error.scope})


def _hold(job: Job, ledger: Ledger, stack: ExitStack, send: Send) -> tuple[list[RunSpec], dict[str, tuple[Lock, Lock]]]:
    """Hold the runs of a job that are not finished yet, and return them by seed, and their locks."""
    specs: list[RunSpec] = []
    locks: dict[str, tuple[Lock, Lock]] = {}
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    for spec in sorted(job.specs, key=lambda spec: spec.key):  # in one order, to avoid deadlocks
        try:
            patience = max(LEAST_LOCK_TIMEOUT_SECONDS, deadline - time.monotonic())
            locks[spec.key] = stack.enter_context(ledger.hold(spec.key, patience))
        except HeldError as error:
            send("held", {"key": spec.key, "message": str(error)})
            continue
        settle(ledger.folder(spec.key))
        standing = ledger.standing(spec.key)
        done = standing.done(job.draws)
        if done or (standing.failed and not job.retry):  # another launcher finished it while this one waited
            send("finished", {"key": spec.key, "status": standing.status, "reason": standing.reason})
        else:
            specs.append(spec)
    return sorted(specs, key=lambda spec: spec.seed), locks


def checkpoint_seconds() -> float:
    """Return the time between two checkpoints. `UsageError` if the environment variable is not a number above zero."""
    return seconds_set("BENCH_CHECKPOINT_SECONDS", CHECKPOINT_SECONDS)


def _blocks(session: Any, stop: Stop, send: Send, timeout: float | None) -> Iterator[bool]:
    """Advance a session to its end. After each block of steps, yield whether its progress was just reported."""
    reported = time.monotonic()
    session.check_unchanged()
    while not session.finished and not stop.reason:
        session.check_time(timeout)
        session.advance()
        due = time.monotonic() - reported > PROGRESS_SECONDS or session.finished
        if due:
            send("progress", session.progress())
            reported = time.monotonic()
        yield due


def _advance(session: Any, stop: Stop, send: Send, timeout: float | None = None) -> None:
    """Advance a session to its end, report its progress to the launcher, and write checkpoints at intervals."""
    from harness.runs.failure import DiskError

    pause = checkpoint_seconds()
    saved = time.monotonic()
    try:
        with interrupted_after(timeout):
            for reported in _blocks(session, stop, send, timeout):
                if reported:
                    _check_locks(session, stop, send)
                now = time.monotonic()
                if now - saved > (min(CYCLE_SECONDS, pause) if session.ended_a_cycle else pause):
                    session.checkpoint()
                    saved = time.monotonic()
        if session.finished:
            if time.monotonic() - saved > CYCLE_SECONDS:
                session.checkpoint()  # so that a kill while scoring repeats little
            session.conclude()
        else:
            session.suspend(stop.reason)
    except BaseException as error:
        if lost_device(error):
            session.note(Status.DEVICE_LOST)
        elif isinstance(error, DataError):
            session.check_folders()  # if they are gone, that is why a write failed
            if isinstance(error, DiskError) and error.full:
                session.note(Status.DISK_FULL)
        else:
            session.fail(error, traceback.format_exc())
            return
        raise


def _check_locks(session: Any, stop: Stop, send: Send) -> None:
    """Stop with a checkpoint if a lock file is gone. If a run's folder is gone, raise `LostError` without one."""
    session.check_folders()
    path = session.lost_file()
    if path is not None and not session.finished:
        stop.ask(Status.ORPHANED)
        message = f"the lock file {path} was deleted or replaced, so its worker stopped; repeat the command to resume"
        send("failed", {"message": message, "exit_code": 1, "held": False})


def _labels(specs: Sequence[RunSpec], device: str) -> dict[str, Any]:
    """Return what `bench status` shows about a worker."""
    spec = specs[0]
    return {
        "device": device, "method": spec.method, "task": spec.task.name, "protocol": spec.protocol,
        "chains": spec.chains, "budget": spec.budget, "steps": spec.steps, "seeds": ranges(s.seed for s in specs),
    }  # fmt: skip


def rerun(job: Job, folder: Path, send: Send) -> dict[str, Any]:
    """Repeat the runs of a job, with their attempts below `folder`, and return a record of the first.

    attempt      its directory
    last_finite  the position of the diverged chain one step before, as a list; None if no chain diverged
    trace        the traceback of a run that failed
    """
    from harness.runs.session import Session

    record: dict[str, Any] = {"last_finite": None, "trace": None}
    ledger = Ledger(folder)
    with device_held(job.device):
        prepare(job)
        ledger.prepare()
        blocks = [[spec] for spec in job.specs] if job.specs[0].moved else [job.specs]
        for session in (session for block in blocks for session in Session.open_all(ledger, block, job, send)):
            try:
                with interrupted_after(job.timeout):
                    for _ in _blocks(session, Stop(), send, job.timeout):
                        pass
                session.conclude()
            except Exception as error:  # the run failed, as it may have done before
                if isinstance(error, DataError) or lost_device(error):
                    raise
                record["trace"] = traceback.format_exc()
                session.fail(error, record["trace"])
            last = session.loop.runs[0].last_finite
            record["last_finite"] = None if last is None else last.tolist()
    (attempt,) = ledger.attempts(job.specs[0].key)
    return record | {"attempt": attempt.path}
