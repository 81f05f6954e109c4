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
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from setting import Case, pin
from targets import check, checked

WARM = 0.3
"""Seconds of work before what is measured: a process that has waited is several times slower for up to 0.2 s on a
virtual machine.
"""


@dataclass
class Work:
    """A sampler ready to go: `advance` does a stretch of `chain_steps`, waits for it, returns its draws (B, C, D).

    `facts` are for the record.
    """

    chain_steps: int
    advance: Callable[[], Any]
    facts: dict[str, float] = field(default_factory=dict)


def serve(prepare: Callable[[Case], Work]) -> None:
    """Answer the driver until its end of file."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    pin()
    case = Case.of_json(json.loads(sys.argv[1]))
    work = prepare(case)
    first, later = timed(work.advance), timed(work.advance)
    ready = {"compile": max(0.0, first - later), "check": verdict(case, work), **work.facts}
    gc.collect()  # what compiling left behind is swept here, not in the first round
    answers.write(json.dumps(ready) + "\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(measure(work, float(line))) + "\n")
        answers.flush()


def verdict(case: Case, work: Work) -> dict[str, object]:
    """The check of the draws of some stretches, after as many of the approach; right where the target has none."""
    stretches = -(-checked(case) // work.chain_steps)
    if not stretches:
        return {"what": "", "right": True}
    return check(case, np.concatenate([work.advance() for _ in range(2 * stretches)][stretches:]))


def measure(work: Work, seconds: float) -> dict[str, float]:
    began = time.process_time()
    while time.process_time() - began < WARM:
        work.advance()
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
