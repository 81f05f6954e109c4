"""Ours: `harness.engine.loop.Loop` as a worker drives it, block after block, draws put aside for the draws file.

Forms: a mode of execution ("plain", "compiled"), and ", observed" where the task's own observer sees every draw; else
an observer stands in that does nothing, so that what is timed is what the peers do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from serving import Work, serve
from setting import Case
from targets import full_batch, sampler_of, step_size, streams, task_of

from harness.tasks import Observer, Outcome

MAX_STEPS = 2_000_000
CHAIN_STEPS = 40_000_000
"""The trajectory is as long as the whole measurement, or is begun again."""

NUMBERS = 200_000_000
"""Most numbers of the draws of a trajectory, which some observers keep."""

LEAST = 2_000


class Silent(Observer):
    def observe(self, draws: Any, weights: Any, steps: Any) -> None:
        pass

    def outcome(self) -> Outcome:
        return Outcome({})

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: Any) -> None:
        pass


def make_loop(case: Case, *, silent: bool = True) -> Any:
    import torch

    torch.set_num_threads(1)
    sampler = sampler_of(case.method)
    task = task_of(case.task) if sampler.gradients_per_step else full_batch(case.task)
    loop = looped(sampler, task, step_size(case), case)
    if silent:
        loop.runs[0].observer = Silent()
    return loop


def looped(sampler: Any, task: Any, h: float, case: Case) -> Any:
    """A loop of the case's chains and mode, at the start of a long trajectory of constant h.

    Where draws are observed, as many of them are as in a run of the task's first protocol.
    """
    from harness.engine.loop import Loop
    from plugins.schedules.constant import Constant

    steps = int(np.clip(CHAIN_STEPS // case.chains, 10_000, MAX_STEPS))
    steps = max(LEAST, min(steps, NUMBERS // (case.chains * task.dim())))
    trajectory = Constant(step_size=h).trajectory(steps, task.steps_per_epoch())
    mode, _, observed = case.form.partition(", ")
    if observed:
        trajectory = trajectory.with_burn_in(0, task.protocols[0].thin)
    options = {} if mode == "plain" else {"mode": mode}
    return Loop(task, sampler, trajectory, streams(case), case.chains, **options)


def endless(make: Callable[[], Any]) -> tuple[int, Callable[[], np.ndarray]]:
    """The steps of a block, and a function that does one and returns its draws; after the last it begins again."""
    carry = {"loop": make()}

    def advance() -> np.ndarray:
        loop = carry["loop"]
        if loop.finished:
            if loop.position < len(loop.trajectory):
                raise RuntimeError(str(loop.runs[0].divergence))
            loop = carry["loop"] = make()
        loop.advance_block()
        return loop.runs[0].fetch()

    return carry["loop"].stage.ends[0], advance


def prepare(case: Case) -> Work:
    block, advance = endless(lambda: make_loop(case, silent=not case.form.endswith("observed")))
    return Work(block * case.chains, advance)


if __name__ == "__main__":
    serve(prepare)
