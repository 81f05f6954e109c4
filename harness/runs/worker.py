"""The worker: one child process for one block of runs that differ only in their seed.

It holds the locks of the runs and writes their attempts. It never opens the store. When its parent dies or asks it to
stop, it writes checkpoints and ends.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness.contracts import plugin_process, user_files
from harness.contracts.plugin_errors import format_error
from harness.engine.stepping.making import UncompiledError
from harness.results.ledger.commit import settle
from harness.results.ledger.heartbeats import Notice, ranges
from harness.results.ledger.ledger import Ledger
from harness.results.records import Status
from harness.results.spec import Execution, RunSpec
from harness.runs import undeclared
from harness.runs.limit import interrupted_after
from harness.runs.uncompiled import asked_mode
from harness.system.errors import BenchError, DataError, UsageError
from harness.system.locks import HeldError, Lock, lock_device
from harness.system.memory import keep_freed, lacks_memory
from harness.system.streams import secure

CHECKPOINT_SECONDS = 300.0
"""Time between two checkpoints, unless BENCH_CHECKPOINT_SECONDS sets another."""
CYCLE_SECONDS = 10.0
"""Least time between a checkpoint and one that is written at the end of a cycle or of the run."""
PROGRESS_SECONDS = 0.2
LOCK_TIMEOUT_SECONDS = 10.0
GRACE_SECONDS = 60.0
"""Time that workers have to end after they were asked to. They check between two blocks of steps, and then write
checkpoints.
"""
LEAST_LOCK_TIMEOUT_SECONDS = 0.5
"""Least time to wait for a lock: a process that only tests whether it is held must not be mistaken for its holder."""


@dataclass(frozen=True)
class Job:
    """The input of a worker: the runs of one block, the results folder, and the device. `name` is a launcher's job."""

    specs: Sequence[RunSpec]
    results: Path
    device: str
    slot: str
    threads: int = 1
    plugins: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    data: Sequence[Any] = ()
    timeout: float | None = None
    retry: bool = False
    draws: str = "some"
    name: str = ""


@dataclass
class Stop:
    """The reason why the worker should end: "cancelled", "preempted" or "orphaned", and "" while it should not."""

    reason: str = ""

    def ask(self, reason: str) -> None:
        """Ask the loop to end before the next block of steps. The first reason is kept."""
        self.reason = self.reason or reason


def serve(function: str, arguments: tuple[Any, ...], patient: bool, pipe: Connection) -> None:  # noqa: FBT001 - by pickle
    """Call "package.module:name"(*arguments, send) in a child process. A patient child's function also gets a `Stop`.

    Sends (kind, payload) messages. The last one is "end" with the function's return value as `value`, "failed" or
    "device lost". When the parent dies, a patient child has `GRACE_SECONDS` to stop, and any other child ends at once.
    """
    stop = Stop()
    for number in (signal.SIGINT, signal.SIGHUP):  # the launcher handles Ctrl-C and a closed terminal
        signal.signal(number, signal.SIG_IGN)
    if patient:
        signal.signal(signal.SIGTERM, lambda *_: stop.ask(Status.PREEMPTED))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # the fork server blocks it
    os.register_at_fork(after_in_child=pipe.close)  # a process that a plugin left behind must not keep it open
    threading.Thread(target=_watch, args=(pipe, stop, patient), daemon=True).start()
    send = _sender(pipe)
    os.dup2(2, 1)  # what a plugin prints must not mix with results on stdout
    secure()
    try:
        from harness.runs import preload

        preload.check()
        module, _, name = function.partition(":")
        work = getattr(importlib.import_module(module), name)
        send("end", {"value": work(*arguments, send, stop) if patient else work(*arguments, send)})
    except BenchError as error:
        held = isinstance(error, HeldError)
        trace = traceback.format_exc()
        send("failed", {"message": str(error), "exit_code": error.exit_code, "held": held, "traceback": trace})
    except BaseException as error:  # noqa: BLE001 - the launcher must be told of any error
        from harness.runs.failure import lost_device

        device, trace = lost_device(error), traceback.format_exc()
        what = "not enough memory" if lacks_memory(error) else "worker failed"
        message = f"{what}: {format_error(error).removeprefix('MemoryError: ')}"
        kind, message = ("device lost", device) if device else ("failed", message)
        send(kind, {"message": message, "exit_code": 1, "held": False, "traceback": trace})


def run(job: Job, send: Callable[[str, dict[str, Any]], None], stop: Stop) -> None:
    """Do the runs of a job that are not finished yet."""
    with ExitStack() as stack:
        _run(job, stack, stop, send)


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


def _sender(pipe: Connection) -> Callable[[str, dict[str, Any]], None]:
    lock = threading.Lock()

    def send(kind: str, payload: dict[str, Any]) -> None:
        try:
            with lock:
                pipe.send((kind, payload))
        except OSError:
            return  # the parent is dead, and `_watch` stops this process

    return send


def _run(job: Job, stack: ExitStack, stop: Stop, send: Callable[[str, dict[str, Any]], None]) -> None:
    ledger = Ledger(job.results)
    stack.enter_context(device_held(job.device))
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
    specs.sort(key=lambda spec: spec.seed)
    if not specs:
        return

    notice = stack.enter_context(Notice(ledger.locks / f"{specs[0].key}.notice"))
    notice.update(_labels(specs, job.device))

    prepare(job)
    try:
        _advance_all(ledger, specs, job, stop, send, notice, locks)
    except UncompiledError as error:
        if asked_mode(specs[0]) is not None:
            raise
        for spec in specs:
            if spec.key in locks:  # those of other runs were given to their sessions
                send("uncompiled", {"key": spec.key, "reason": error.reason, "scope": error.scope})


def _advance_all(
    ledger: Ledger,
    specs: Sequence[RunSpec],
    job: Job,
    stop: Stop,
    send: Callable[[str, dict[str, Any]], None],
    notice: Notice,
    locks: dict[str, tuple[Lock, Lock]],
) -> None:
    from harness.runs.session import Session

    for session in Session.open_all(ledger, specs, job, send):
        attempt = str(session.attempts[0].path.relative_to(ledger.root))
        notice.update({**_labels(session.specs, job.device), "attempt": attempt})
        session.locks = [locks.pop(spec.key) for spec in session.specs]
        _advance(session, stop, notice.hearing(send), job.timeout)
        if stop.reason:
            return


def prepare(job: Job) -> None:
    """Prepare this process for the runs of a job: check the device and the data, set torch's flags, load plugins."""
    import torch

    _check_device(job.device, torch.cuda.device_count())
    keep_freed()
    torch.set_num_threads(job.threads)
    torch.set_default_dtype(torch.float32)
    set_up(job.specs[0].execution, job.device)
    for path in job.plugins:
        plugin_process.add_file(Path(path))
    user_files.FOLDERS.append(job.results / user_files.FOLDER)
    undeclared.watch()
    _check_data(job)


@contextmanager
def device_held(device: str) -> Iterator[None]:
    """Hold the lock of a GPU. The CPU has no lock."""
    if device == "cpu":
        yield
        return
    import torch

    _check_device(device, torch.cuda.device_count())
    with lock_device(_gpu_identity(device), device, LOCK_TIMEOUT_SECONDS):
        yield


def _gpu_identity(device: str) -> str:
    """Return the UUID of a GPU, because CUDA_VISIBLE_DEVICES changes the numbers; without a UUID, return the number."""
    import torch

    properties = torch.cuda.get_device_properties(device)
    return str(getattr(properties, "uuid", device))


def set_up(execution: Execution, device: str) -> None:
    """Set torch's flags. If the device is a GPU, make it the current device of this process."""
    import torch

    # This sets the mode of operations only. The mode of torch's compiler, which takes a second to import, is set when
    # the compiler is used.
    torch.set_deterministic_debug_mode("warn" if execution.deterministic else "default")
    if device == "cpu":
        return
    # cuBLAS reads this when it starts. Without it torch warns that matrix products may differ from run to run.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.cuda.set_device(device)  # streams and graphs are made on the current device
    # Deterministic algorithms would fill all new memory with NaN, which costs one more kernel for each operation.
    torch.utils.deterministic.fill_uninitialized_memory = False
    with warnings.catch_warnings():
        # torch 2.9 warns about these names. If the newer names were set, reading the old ones is an error.
        warnings.simplefilter("ignore", UserWarning)
        torch.backends.cuda.matmul.allow_tf32 = execution.tf32
        torch.backends.cudnn.allow_tf32 = execution.tf32
    torch.backends.cudnn.benchmark = execution.cudnn_benchmark


def checkpoint_seconds() -> float:
    """Return the time between two checkpoints. `UsageError` if the environment variable is not a number above zero."""
    text = os.environ.get("BENCH_CHECKPOINT_SECONDS") or str(CHECKPOINT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise UsageError(
            f"BENCH_CHECKPOINT_SECONDS is {text!r}, not a number of seconds above zero; correct or unset it"
        )
    return seconds


def _check_device(device: str, gpus: int) -> None:
    kind, _, number = device.partition(":")
    if kind == "cuda" and int(number or 0) >= gpus:
        raise UsageError(f"--devices {device}: torch sees {gpus} GPUs on this machine; `bench doctor` says more")


def _check_data(job: Job) -> None:
    from harness.contracts.data import locate

    for file in job.data:
        locate(file)


def _advance(
    session: Any, stop: Stop, send: Callable[[str, dict[str, Any]], None], timeout: float | None = None
) -> None:
    """Advance a session to its end, report its progress to the launcher, and write checkpoints at intervals."""
    from harness.runs.failure import DiskError, lost_device

    pause = checkpoint_seconds()
    saved = reported = time.monotonic()
    try:
        with interrupted_after(timeout):
            while not session.finished and not stop.reason:
                session.check_time(timeout)
                session.advance()
                now = time.monotonic()
                if now - reported > PROGRESS_SECONDS or session.finished:
                    send("progress", session.progress())
                    reported = now
                    _check_locks(session, stop, send)
                if now - saved > (min(CYCLE_SECONDS, pause) if session.ended_a_cycle else pause):
                    session.checkpoint()
                    saved = time.monotonic()
        if session.finished:
            if time.monotonic() - saved > CYCLE_SECONDS:
                session.checkpoint()  # so that a kill while scoring repeats little
            session.conclude()
        else:
            session.suspend(stop.reason)
    except DataError as error:
        session.check_folders()  # if they are gone, that is why a write failed
        if isinstance(error, DiskError) and error.full:
            session.note(Status.DISK_FULL)
        raise
    except BaseException as error:
        if lost_device(error) is None:
            session.fail(error, traceback.format_exc())
            return
        session.note(Status.DEVICE_LOST)
        raise


def _check_locks(session: Any, stop: Stop, send: Callable[[str, dict[str, Any]], None]) -> None:
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
