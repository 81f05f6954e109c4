"""Ours: `harness.engine.loop.Loop` as a worker drives it, block after block, draws put aside for the draws file.

Forms: a mode of execution ("plain", "compiled"), and ", observed" where the task's own observer sees every draw; else
an observer stands in that does nothing, so that what is timed is what the peers do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from serving import Work, serve
from setting import BATCH, FRICTION, LEAPFROG, Case, step_size

from harness.tasks import Observer, Outcome

MAX_STEPS = 2_000_000
CHAIN_STEPS = 40_000_000
"""The trajectory is as long as the whole measurement, or is begun again."""


class Silent(Observer):
    def observe(self, draws: Any, weights: Any, steps: Any) -> None:
        pass

    def outcome(self) -> Outcome:
        return Outcome({})

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: Any) -> None:
        pass


def streams(case: Case) -> list[Any]:
    from harness.contracts.randomness import Streams

    return [Streams(0, chain, (case.task,)) for chain in range(case.chains)]


def make_loop(case: Case, *, silent: bool = True) -> Any:
    import torch

    from harness.system.memory import keep_freed
    from plugins.samplers.hmc import HMC
    from plugins.samplers.msgld import MSGLD
    from plugins.samplers.sghmc import SGHMC
    from plugins.samplers.sgld import SGLD
    from tasks.regression.blr import German
    from tasks.synthetic.mixture25 import Mixture25

    keep_freed()
    torch.set_num_threads(1)
    samplers = {"sgld": SGLD(), "msgld": MSGLD(), "sghmc": SGHMC(friction=FRICTION), "hmc": HMC(leapfrog=LEAPFROG)}
    task = German(batch=BATCH) if case.task == "blr-german" else Mixture25(noise=0.0)
    loop = looped(samplers[case.method], task, step_size(case), case)
    if silent:
        loop.runs[0].observer = Silent()
    return loop


def looped(sampler: Any, task: Any, h: float, case: Case) -> Any:
    """A loop of the case's chains and mode, at the start of a long trajectory of constant h."""
    from harness.engine.loop import Loop
    from plugins.schedules.constant import Constant

    steps = int(np.clip(CHAIN_STEPS // case.chains, 10_000, MAX_STEPS))
    trajectory = Constant(step_size=h).trajectory(steps, task.steps_per_epoch())
    mode = case.form.partition(",")[0]
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
