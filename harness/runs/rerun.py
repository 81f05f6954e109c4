"""The repetition of a run in a worker process, in a separate folder."""

from __future__ import annotations

import time
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness import DataError
from harness.results import Ledger, Send
from harness.runs import Job, prepare
from harness.runs.job import device_held
from harness.runs.limit import interrupted_after
from harness.runs.session import Session
from harness.runs.worker import PROGRESS_SECONDS


def rerun(job: Job, folder: Path, send: Send) -> dict[str, Any]:
    """Repeat the one run of a job, with its attempt below `folder`, and return a record.

    attempt      its directory
    last_finite  the position of the diverged chain one step before, as a list; None if no chain diverged
    trace        the traceback of a run that failed
    """
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        stack.enter_context(device_held(job.device))
        prepare(job)
        ledger = Ledger(folder)
        ledger.prepare()
        for session in Session.open_all(ledger, job.specs, job, send):
            found = _advance(session, send, job.timeout)
    (attempt,) = ledger.attempts(job.specs[0].key)
    return {"last_finite": None, "trace": None, **found, "attempt": attempt.path}


def _advance(session: Session, send: Send, timeout: float | None) -> dict[str, Any]:
    last_sent = time.monotonic()
    trace = None
    try:
        with interrupted_after(timeout):
            while not session.finished:
                session.check_time(timeout)
                session.advance()
                if time.monotonic() - last_sent > PROGRESS_SECONDS:
                    send("progress", session.progress())
                    last_sent = time.monotonic()
        session.conclude()
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - the run failed, as it may have done before
        trace = traceback.format_exc()
        session.fail(error, trace)
    last = session.loop.runs[0].last_finite
    return {"trace": trace, "last_finite": None if last is None else last.tolist()}
