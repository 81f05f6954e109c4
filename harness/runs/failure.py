"""The end of runs without a result: a status with the reason, or an error after which they can be resumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from harness.contracts.plugin_errors import format_error
from harness.results.ledger.attempt import Attempt, now
from harness.results.ledger.commit import conclude
from harness.results.ledger.heartbeats import Send
from harness.results.records import AttemptResult, Status
from harness.results.spec import RunSpec
from harness.runs.limit import OutOfTimeError
from harness.system.device_errors import lacks_memory, lost_device
from harness.system.errors import FULL, BenchError, DataError, PluginError, why


class DiskError(DataError):
    """Results could not be written. `full` says that space was lacking: the run can then be resumed."""

    full = False


@contextmanager
def writing() -> Iterator[None]:
    """Raise `DiskError` for an error of the disk, so that it is not taken for an error of a plugin."""
    try:
        yield
    except OSError as error:
        lost = DiskError(f"cannot write results: {why(error)}; then give the same command again")
        lost.full = error.errno in FULL
        raise lost from error


@contextmanager
def setting_up(spec: RunSpec) -> Iterator[None]:
    """Convert what plugins raise before the first step to a `PluginError`, or to a `MemoryError` if memory is lacking.

    Errors of a lost device stay what they are.
    """
    try:
        yield
    except Exception as error:
        if lost_device(error):
            raise
        if lacks_memory(error):
            raise MemoryError(f"{spec.method} on {spec.task.name}: {format_error(error)}") from error
        if isinstance(error, BenchError):
            raise
        raise PluginError(f"{spec.method} on {spec.task.name} cannot begin: {format_error(error)}") from error


def fail_all(
    attempts: Sequence[Attempt],
    specs: Sequence[RunSpec],
    error: BaseException,
    trace: str,
    send: Send,
    position: int = 0,
    cost: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Conclude the attempts that have no result yet with a status that says why there is none, and what they cost."""
    status, reason = _failure(error)
    for attempt, spec in zip(attempts, specs, strict=True):
        if attempt.result() is not None:
            continue
        with writing():
            attempt.event("traceback", text=trace)
            conclude(
                attempt,
                AttemptResult(
                    run_key=spec.key, status=status, reason=reason, step=position, started=attempt.started(),
                    finished=now(), steps_done=position, **cost,
                ),
            )  # fmt: skip
        send("finished", {"key": spec.key, "status": status, "reason": reason, "traceback": trace})


def _failure(error: BaseException) -> tuple[str, str]:
    """Return the status of a run that an error ended, and the reason as text."""
    if isinstance(error, OutOfTimeError):
        return Status.TIMEOUT, str(error)
    return Status.OUT_OF_MEMORY if lacks_memory(error) else Status.ERROR, format_error(error)
