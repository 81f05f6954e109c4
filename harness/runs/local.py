"""The local launcher, which gives blocks of runs to child processes, one per slot, and reads their messages.

At Ctrl-C or SIGTERM it asks the children to write checkpoints and end. If this process dies, they reach the end of
their pipe and do the same. A device that fails is not used again, and the runs on it are given to another device.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

from harness.results.environment import cores
from harness.results.ledger.heartbeats import Send
from harness.results.records import Status
from harness.runs.child import GRACE_SECONDS, Call, serve
from harness.runs.children import Child, born, fork_server
from harness.runs.job import Job
from harness.runs.plan import Planned, divide
from harness.runs.worker import checkpoint_seconds
from harness.system.errors import BenchError, UsageError, exit_text
from harness.system.memory import peak_memory
from harness.system.text import count

WORK = "harness.runs.worker:run"
DAY = 86_400.0
KILLED_SECONDS = 5.0
"""Time for the kernel to remove a killed process. A process that hangs in a device driver may take longer."""
SILENT_SECONDS = 2.0
"""How long workers may take to end before a message says that this command waits for them."""
JUDGE_AFTER_SECONDS = 5.0
LOSSES = 2
"""How many devices a block of runs may lose before it is considered the cause."""


class PreemptedError(BenchError):
    """A scheduler ended this command by SIGTERM, and the workers with it."""

    exit_code = 130


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM arrived."""


@dataclass
class LaunchSummary:
    """The outcome of a launch: the statuses of its runs, its error messages, and whether the runs go on elsewhere.

    `uncompiled` has the workers' messages about runs that cannot be compiled and did not start; `instead` has the plain
    runs that were executed in their place. Both are by the keys of the compiled runs.
    """

    statuses: dict[str, str] = field(default_factory=dict)
    detached: bool = False
    uncompiled: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    instead: dict[str, Planned] = field(default_factory=dict)
    failures: list[tuple[int, str]] = field(default_factory=list)

    def hear(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Record a worker's message."""
        if kind in ("finished", "suspended"):
            self.statuses[payload["key"]] = payload["status"]
        elif kind == "uncompiled":
            self.uncompiled[payload["key"]] = payload
        elif kind == "held":
            self.failures.append((1, payload["message"]))
        elif kind == "failed":
            self.failures.append((payload["exit_code"], payload["message"]))

    @property
    def exit_code(self) -> int:
        """0 if every run ended as done, else the highest code of a failure, or 1 if a run failed or diverged."""
        if self.failures:
            return max(code for code, _ in self.failures)
        return int(any(status != Status.DONE for status in self.statuses.values()))


@dataclass(kw_only=True)
class _Child(Child):
    job: Job
    began: float
    progress: dict[str, Any] = field(default_factory=dict)
    lost: bool = False
    peak: int = 0


class Place(NamedTuple):
    """Where a worker computes: a device, and the worker's name in messages."""

    device: str
    slot: str


def slots(devices: Sequence[str], workers: int | None) -> list[Place]:
    """Return the place of each worker: one on each accelerator, and `workers` (None: one per core) on the CPU."""
    cpu = [Place("cpu", f"cpu-{i}") for i in range(workers or cores())] if "cpu" in devices else []
    return [Place(device, device) for device in devices if device != "cpu"] + cpu


def jobs(
    planned: Iterable[Planned], results: Path, plugins: tuple[str, ...], distributions: tuple[str, ...], places: int = 1
) -> list[Job]:
    """Return the planned runs divided into blocks for `places` workers, one job each."""
    return [
        Job([item.spec for item in block], results, "cpu", "cpu-0", 1, plugins, distributions, block[0].data)
        for block in divide(planned, places)
    ]


def launch(queue: Sequence[Job], places: Sequence[Place], listen: Send, *, long_is_fine: bool = True) -> LaunchSummary:
    """Run all jobs, `len(places)` at a time. `listen(kind, payload)` is called for every message of the workers."""
    checkpoint_seconds()  # an invalid value is refused before any worker starts
    waiting, free = list(queue), list(places)
    children: list[_Child] = []
    outcome = LaunchSummary()
    before = _on_sigterm(_preempt)
    lost: Counter[str] = Counter()
    try:
        while waiting or children:
            if not free and not children:
                text = "no device is left; repeat the command when one is available again"
                outcome.failures.append((1, text))
                listen("failed", {"message": text})
                break
            while waiting and free:
                children.append(_start(waiting.pop(0), free.pop(0)))
            for child in _receive(children, listen, outcome):
                children.remove(child)
                if not child.lost:
                    free.append(Place(child.job.device, child.job.slot))
                    continue
                lost[child.job.specs[0].key] += 1
                if lost[child.job.specs[0].key] <= LOSSES:
                    waiting.insert(0, child.job)
                else:
                    outcome.failures.append((1, f"a block of runs lost {LOSSES + 1} devices, and is not tried again"))
            if not long_is_fine:
                _refuse_long(children, waiting, len(places))
        _count_unfinished(queue, listen, outcome)
    except _TerminatedError:
        _stop(children, listen, outcome, Status.PREEMPTED)
        raise PreemptedError("ended by SIGTERM; repeat the command to resume") from None
    except BaseException:
        _stop(children, listen, outcome, Status.CANCELLED)
        raise
    finally:
        _on_sigterm(before)
    return outcome


def _count_unfinished(queue: Sequence[Job], listen: Send, outcome: LaunchSummary) -> None:
    """Record a failure if no worker reported how some runs ended, whatever the reason."""
    runs = [spec.key for job in queue for spec in job.specs]
    number = len(set(runs) - outcome.statuses.keys() - outcome.uncompiled.keys())
    if number and not outcome.failures:
        text = f"{number} of {len(runs)} runs did not finish; repeat the command to resume"
        outcome.failures.append((1, text))
        listen("failed", {"message": text})


def _on_sigterm(handler: Any) -> Any:
    """Set what happens at SIGTERM and return what did before. Threads beside the main one cannot, and get no signal."""
    return signal.signal(signal.SIGTERM, handler) if threading.current_thread() is threading.main_thread() else None


def _preempt(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a scheduler may send it to the process and to its group
    raise _TerminatedError


def _start(job: Job, where: Place) -> _Child:
    placed = replace(job, **where._asdict())
    process, pipe = born(serve, Call(WORK, (placed,), patient=True))
    return _Child(process=process, pipe=pipe, job=placed, began=time.monotonic())


def _receive(children: list[_Child], listen: Send, outcome: LaunchSummary) -> list[_Child]:
    """Take the messages that have arrived. Returns the children that have ended."""
    for child in children:
        child.peak = max(child.peak, peak_memory(child.process.pid))
    ready = set(wait([part for child in children for part in (child.pipe, child.process.sentinel)], timeout=0.5))
    ended = [child for child in children if child.pipe in ready and _take(child, listen, outcome)]
    # A process that the worker left behind may keep the pipe open, although the worker has ended.
    dead = [child for child in children if child.process.sentinel in ready and child not in ended]
    for child in dead:
        while child.pipe.poll() and not _take(child, listen, outcome):
            pass
        if not child.ended:
            _report_death(child, listen, outcome)
    return ended + dead


def _take(child: _Child, listen: Send, outcome: LaunchSummary) -> bool:
    message = child.receive()
    if message is None:
        if not child.ended:
            _report_death(child, listen, outcome)
        return True
    kind, payload = message
    if kind == "device lost":
        payload = {**payload, "message": f"{child.job.slot}: {payload['message']}"}
    payload = {**payload, "block": child.job.specs[0].key}
    if kind == "progress":
        child.progress = {**payload, "rate": max(payload["rate"], child.progress.get("rate", 0.0))}
    outcome.hear(kind, payload)
    child.lost = child.lost or kind == "device lost"
    listen(kind, payload)
    return False


def _report_death(child: _Child, listen: Send, outcome: LaunchSummary) -> None:
    """Record that a worker exited unexpectedly."""
    child.process.join()
    child.ended = True
    text = (
        f"a worker exited unexpectedly ({exit_text(child.process.exitcode, child.peak)}); repeat the command to resume"
    )
    outcome.failures.append((1, text))
    listen("died", {"message": text, "block": child.job.specs[0].key})


def _refuse_long(children: Sequence[_Child], waiting: Sequence[Job], workers: int) -> None:
    """Raise `UsageError` if the whole launch would take over a day.

    A waiting job is taken to last as long as the longest measured one of its task: jobs of one launch have equal data
    passes, but steps of one sampler can take a thousand times as long as those of another. Of a task of which none was
    measured it counts nothing. A job is taken to be as fast as it ever was on average, since the
    average counts the time for which it was suspended.
    """
    known = [c for c in children if c.progress and time.monotonic() - c.began > JUDGE_AFTER_SECONDS]
    whole: dict[str, float] = {}
    left = 0.0
    for child in known:
        progress, task = child.progress, child.job.specs[0].task.name
        rate = max(progress["rate"], 1e-9)
        whole[task] = max(whole.get(task, 0.0), progress["steps"] / rate)
        left += (progress["steps"] - progress["position"]) / rate
    seconds = (left + sum(whole.get(job.specs[0].task.name, 0.0) for job in waiting)) / workers
    if seconds > DAY:
        raise UsageError(
            f"this would take about {seconds / 3600:.0f} hours "
            f"({count(len(known), 'job')} at work, {len(waiting)} waiting, {count(workers, 'worker')}); "
            "add --yes to run it anyway, or ask for --budget smoke, quick or steps=N; "
            "what was done so far is kept"
        )


def _stop(children: Sequence[_Child], listen: Send, outcome: LaunchSummary, reason: str) -> None:
    """Ask all children to write checkpoints and end, and kill those that have not ended after `GRACE_SECONDS`."""
    for child in children:
        with contextlib.suppress(OSError):
            child.pipe.send(reason)
    _continue([child.process.pid for child in children])
    deadline = time.monotonic() + GRACE_SECONDS
    notice_at = time.monotonic() + SILENT_SECONDS
    left = list(children)
    try:
        while left and time.monotonic() < deadline:
            try:
                for child in _receive(left, listen, outcome):
                    left.remove(child)
            except KeyboardInterrupt:
                notice_at = 0.0
            if left and time.monotonic() > notice_at:
                notice_at = deadline
                seconds = deadline - time.monotonic()
                text = f"workers that have not ended: {len(left)}; waiting up to {seconds:.1f} s for their checkpoints"
                listen("stopping", {"message": text})
    finally:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for child in left:
            child.process.kill()
        for child in children:
            child.process.join(KILLED_SECONDS)
        signal.signal(signal.SIGINT, before)
    if left:
        listen("stopping", {"message": f"workers killed, as they had not ended in {GRACE_SECONDS:g} s: {len(left)}"})


def _continue(pids: Sequence[int | None]) -> None:
    """Continue workers that were stopped (SIGSTOP), and multiprocessing's helpers, which report when workers end."""
    helpers = (fork_server(), getattr(getattr(resource_tracker, "_resource_tracker", None), "_pid", None))
    for pid in (*pids, *helpers):
        if pid is not None:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
