"""The worker's side of a measurement: get ready in a process of its own, then measure each time the driver asks.

Protocol: argv[1] is the case; one JSON line comes back when all is compiled and checked; after that, each line on stdin
is a number of seconds, answered by one JSON line {"chain_steps", "seconds", "wall"}: seconds of the processor and of
the clock. On the one core that the process is bound to they are the same, but for what other processes take of it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from setting import CHECKED, Case, check, pin


@dataclass
class Work:
    """A sampler ready to go: `advance` does a stretch of `chain_steps`, waits for it, returns its draws (B, C, D)."""

    chain_steps: int
    advance: Callable[[], Any]


def serve(prepare: Callable[[Case], Work]) -> None:
    """Answer the driver until its end of file."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    pin()
    fields = json.loads(sys.argv[1])
    case = Case(**{name: value for name, value in fields.items() if name != "name"})
    work = prepare(case)
    first, later = timed(work.advance), timed(work.advance)
    draws = [np.asarray(work.advance()) for _ in range(max(1, -(-CHECKED // work.chain_steps)))]
    gc.collect()  # what compiling left behind is swept here, not in the first round
    ready = {"compile": max(0.0, first - later), "check": check(case, np.concatenate(draws))}
    answers.write(json.dumps(ready) + "\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(measure(work, float(line))) + "\n")
        answers.flush()


def measure(work: Work, seconds: float) -> dict[str, float]:
    began, wall, stretches = time.process_time(), time.perf_counter(), 0
    while time.process_time() - began < seconds:
        work.advance()
        stretches += 1
    spent = {"seconds": time.process_time() - began, "wall": time.perf_counter() - wall}
    return {"chain_steps": stretches * work.chain_steps, **spent}


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
