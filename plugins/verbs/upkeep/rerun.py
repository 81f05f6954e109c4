"""A run done once more in a worker process, in a folder aside, to its end or to a step."""

from __future__ import annotations

import time
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from harness.results.ledger.ledger import Ledger
from harness.runs.session import Session
from harness.runs.subprocess_call import Send
from harness.runs.worker import PROGRESS_SECONDS, Job, device_held, prepare
from harness.system.errors import DataError


def rerun(job: Job, folder: Path, until: int | None, send: Send) -> dict[str, Any]:
    """Do the one run of a job again, its attempt below `folder`; to the first block's end from `until` on.

    attempt      its directory; concluded where the run came to an end, whichever
    position     steps done
    last_finite  where the chain that diverged was a step before, as a list; None where none diverged
    trace        the traceback of a run that failed
    """
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        stack.enter_context(device_held(job.device))
        prepare(job)
        ledger = Ledger(folder)
        ledger.prepare()
        for session in Session.open_all(ledger, job.specs, job, send):
            found = _advance(session, until, send)
    (attempt,) = ledger.attempts(job.specs[0].key)
    return {"position": 0, "last_finite": None, "trace": None, **found, "attempt": attempt.path}


def _advance(session: Session, until: int | None, send: Send) -> dict[str, Any]:
    loop, told = session.loop, time.monotonic()
    trace = None
    try:
        while not session.finished and (until is None or loop.position < until):
            session.advance()
            if time.monotonic() - told > PROGRESS_SECONDS:
                send("progress", session.progress())
                told = time.monotonic()
        if session.finished:
            session.conclude()
        else:
            _seal_draws(session)
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - the run failed, as it may have done before
        trace = traceback.format_exc()
        session.fail(error, trace)
    last = loop.runs[0].last_finite
    return {
        "position": loop.position, "trace": trace,
        "last_finite": None if last is None else last.tolist(),
    }  # fmt: skip


def _seal_draws(session: Session) -> None:
    loop, run = session.loop, session.loop.runs[0]
    kept = np.flatnonzero(loop.trajectory.keep) + 1
    session.attempts[0].seal_draws(session.specs[0].chains, loop.problem.dim, kept[:: run.stride or 1])
