"""Where the time of a run goes: nanoseconds of a chain-step of SGLD, by part.

noise      drawing the normals of a block
batches    drawing its minibatches
gradient   plain mode only: as many calls of the gradient as the block makes
around     compiled mode only: memory for what the loop writes, and its pointers
steps      the rest of the block: the update, in compiled mode the gradient too
keeping    handing the draws on, as float32
observing  the task's observer
writing    draws to disk, and one checkpoint a minute

All in seconds of the processor, as in `serving`. Beside them, what the observer spends its time in.
"""

from __future__ import annotations

import functools
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serving import timed
from setting import Case, pin
from stepping import make_loop

if TYPE_CHECKING:
    from harness.results.ledger.attempt import Attempt

PARTS = ("noise", "batches", "gradient", "around", "steps", "keeping", "observing", "writing")
CHECKPOINT_SECONDS = 60.0


class Stopwatch:
    """A function that adds up the seconds spent in it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.seconds = 0.0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return self.function(*arguments, **named)
        finally:
            self.seconds += time.perf_counter() - began


class Profiled:
    """A function, and the seconds within it by the function of the project that is innermost.

    What that one calls elsewhere counts as its own, and so does the C++ code of sums and counts.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.seconds: dict[str, float] = {}

    def __call__(self, *arguments: Any) -> Any:
        stack: list[str] = []
        last = time.process_time()

        def event(frame: Any, what: str, _: object) -> None:
            nonlocal last
            code = frame.f_code
            if what not in ("call", "return") or not _of_project(code.co_filename):
                return
            now = time.process_time()
            if stack:
                self.seconds[stack[-1]] = self.seconds.get(stack[-1], 0.0) + now - last
            last = now
            if what == "call":
                stack.append(code.co_qualname.replace("<locals>.", ""))
            elif stack:
                stack.pop()

        sys.setprofile(event)
        try:
            return self.function(*arguments)
        finally:
            sys.setprofile(None)


@functools.cache
def _of_project(path: str) -> bool:
    import harness
    import tasks

    folders = (str(Path(module.__file__ or "").parent) for module in (harness, tasks))
    return path.startswith(tuple(folders)) and not path.endswith("counting.py")


def measure(case: Case, seconds: float) -> dict[str, dict[str, float]]:
    """Nanoseconds of a chain-step by part, and shares of the observer's time by function.

    They are averages over the blocks of some seconds, the second of other blocks, which are slower for being watched.
    """
    import torch

    from harness.results.ledger.attempt import Attempt

    loop = make_loop(case, silent=False)
    loop.advance_block()
    loop.runs[0].fetch()
    gc.collect()  # what compiling left behind
    watches = watch(loop)
    steps = loop.stage.ends[0]
    spent = dict.fromkeys(PARTS, 0.0)
    blocks, began = 0, time.perf_counter()
    sampling, observing = loop.clock.sampling, loop.clock.observing
    with tempfile.TemporaryDirectory() as folder:
        attempt = Attempt(Path(folder))
        while not blocks or time.perf_counter() - began < seconds:
            loop.advance_block()
            spent["writing"] += timed(lambda: write(loop, attempt))
            blocks += 1
        checkpoint = timed(lambda: save(loop, attempt))
    total = loop.clock.sampling - sampling
    spent["noise"], spent["observing"] = watches["noise"].seconds, watches["observe"].seconds
    spent["batches"] = watches["batches"].seconds
    total -= spent["batches"]
    spent["keeping"] = loop.clock.observing - observing - spent["observing"]
    if "function" in watches:
        spent["steps"] = watches["function"].seconds
        spent["around"] = total - spent["noise"] - spent["steps"]
    else:
        theta, drawn = loop.theta, loop.problem.draw_batches(1)
        batch = {name: leaf[0] for name, leaf in drawn.items()} or None
        with torch.no_grad():
            calls = steps * (loop.sampler.gradients_per_step or loop.sampler.full_gradients_per_step)
            spent["gradient"] = blocks * timed(lambda: [loop.problem.gradient(theta, batch) for _ in range(calls)])
        spent["steps"] = total - spent["noise"] - spent["gradient"]
    spent = {part: value / blocks for part, value in spent.items()}
    spent["writing"] += checkpoint * sum(spent.values()) / CHECKPOINT_SECONDS
    parts = {part: 1e9 * value / (steps * case.chains) for part, value in spent.items()}
    least = of_metrics(loop.runs[0].observer)
    return {"parts": parts, "least": least, "observer": within_observer(loop, watches["observe"].function, seconds)}


def of_metrics(observer: Any) -> dict[str, int]:
    """What the metrics of a draw take at least; nothing where it was not counted.

    Along K directions of D coordinates, the first D of which are the axes, slots: (K - D) D multiply-adds of the other
    projections, and (D + 1) (D + 2) / 2 of the moments of the coordinates; places: K, one among the quantiles for each
    projection. Of the predictions of tiny-bnn, exponentials: one for each hidden unit at each test row, and two for
    its score.
    """
    from harness.contracts.observers import MomentErrors
    from tasks.regression.tiny.task import UNITS, TinyNetwork

    problem = getattr(observer, "problem", None)
    if problem is not None and isinstance(problem.task, TinyNetwork):
        return {"exponentials": len(problem.scored["x"]) * (UNITS + 2)}
    while observer is not None and not isinstance(observer, MomentErrors):
        observer = getattr(observer, "moments", None) or getattr(observer, "errors", None)
    if observer is None:
        return {}
    directions, dim = observer.truth.directions.shape
    slots = (directions - dim) * dim + (dim + 1) * (dim + 2) // 2
    return {"slots": slots} | ({"places": directions} if observer.truth.quantiles is not None else {})


def within_observer(loop: Any, observe: Callable[..., Any], seconds: float) -> dict[str, float]:
    """The shares of the observer's time by function, the largest first, over the blocks of some seconds."""
    profiled = loop.runs[0].observer.observe = Profiled(observe)
    began = time.process_time()
    while not profiled.seconds or time.process_time() - began < seconds:
        loop.advance_block()
    total = sum(profiled.seconds.values())
    return {name: spent / total for name, spent in sorted(profiled.seconds.items(), key=lambda item: -item[1])}


def watch(loop: Any) -> dict[str, Stopwatch]:
    watches = {"noise": Stopwatch(loop.stage.noise.draw), "observe": Stopwatch(loop.runs[0].observer.observe)}
    watches["batches"] = Stopwatch(loop.problem.draw_batches)
    loop.stage.noise.draw, loop.problem.draw_batches = watches["noise"], watches["batches"]
    loop.runs[0].observer.observe = watches["observe"]
    for native in getattr(loop.stage.stepper, "_functions", {}).values():
        watches["function"] = native.function = Stopwatch(native.function)
    if loop.executed == "compiled" and "function" not in watches:
        raise LookupError("the compiled function of a block was not found")
    return watches


def write(loop: Any, attempt: Attempt) -> None:
    draws = loop.runs[0].fetch()
    if draws is not None:
        attempt.append_draws(draws)


def save(loop: Any, attempt: Attempt) -> None:
    attempt.save_checkpoint({name: tensor.numpy() for name, tensor in loop.checkpoint(loop.runs[0]).items()})


if __name__ == "__main__":
    pin()
    time.perf_counter = time.process_time  # the loop's clock reads it
    sys.stdout.write(json.dumps(measure(Case.of_json(json.loads(sys.argv[1])), float(sys.argv[2]))) + "\n")
