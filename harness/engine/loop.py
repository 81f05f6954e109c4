"""The loop that advances the chains of a block of runs through their stages: observation, divergence, checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from harness.contracts.task import Cost
from harness.engine.run_state import Clock, Divergence, RunState
from harness.engine.stage import Stage
from harness.engine.stepping.making import tell_compiler

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.randomness import Streams
    from harness.contracts.sampler import Sampler, State
    from harness.contracts.schedule import Trajectory
    from harness.contracts.task import Observer, Problem, Task
    from harness.engine.stepping.block import Advanced


class Loop:
    """R runs of C chains each that differ only in their seed, as R*C rows of one tensor.

    `streams` has one entry for each row, run after run; `mode` says how steps are executed (see `stepping`); `weights`
    is "equal", or "step-size" for draws whose weight is the step size that made them, times the sampler's weights.
    `observer` makes the runs' observers in place of the problem's own.
    `warm_start` has an optimiser and its trajectory: a stage before the sampling. The chains are sampled from the
    positions where it ends, on the minibatches that follow. Only its cost is part of the run.
    `executed` is the mode in which the steps are executed.
    `advance_block` executes one block of the current `stage`; `done` counts the finished steps of all `stages`.
    """

    def __init__(
        self,
        task: Task,
        sampler: Sampler,
        trajectory: Trajectory,
        streams: Sequence[Streams],
        chains: int,
        *,
        mode: str = "plain",
        weights: str = "equal",
        device: str = "cpu",
        draw_stride: int = 1,
        observer: Callable[[slice, Trajectory, Cost], Observer] | None = None,
        warm_start: tuple[Sampler, Trajectory] | None = None,
    ) -> None:
        self.task, self.sampler, self.trajectory = task, sampler, trajectory
        self.by_step_size = weights == "step-size"
        self.device = device
        self.problem: Problem = task.build(streams, device)
        if mode == "network":
            tell_compiler()
            self.problem.compile_network()
        self.clock = Clock()
        self.stages: list[Stage] = []
        first, spent = -len(warm_start[1]) if warm_start else 0, 0.0
        for moving, path in [*([warm_start] if warm_start else []), (sampler, trajectory)]:
            stage = Stage(
                task, self.problem, moving, path, streams, mode=mode, device=device, first=first, spent_before=spent
            )
            self.stages.append(stage)
            first, spent = first + len(path), stage.spent(len(path))
        self.stage, sampling = self.stages[0], self.stages[-1]
        self.executed = mode if mode == "network" else sampling.stepper.mode
        self.cost = sampling.cost
        seen, cost = trajectory.shared(sampler.particles), self.cost.shared(sampler.particles)
        make, weighted = observer or self.problem.observer, sampling.weighted or self.by_step_size
        self.runs = [
            RunState(rows, make(rows, seen, cost), draw_stride, sampler.particles, weighted=weighted)
            for rows in (slice(r, r + chains) for r in range(0, len(streams), chains))
        ]

    @property
    def theta(self) -> Tensor:
        """The positions of the chains."""
        return self.stage.theta

    @property
    def state(self) -> State:
        """The sampler's state of the chains."""
        return self.stage.state

    @property
    def position(self) -> int:
        """The number of finished steps of the sampling; during a warm start, minus the steps that it has left."""
        return self.stage.first + self.stage.position

    @property
    def done(self) -> int:
        """The number of finished steps, with those of a warm start."""
        return self.position - self.stages[0].first

    @property
    def steps(self) -> int:
        """The number of all steps, with those of a warm start."""
        return sum(len(stage.trajectory) for stage in self.stages)

    def spent(self, position: int) -> float:
        """Return a chain's data passes by this position."""
        stage = next((stage for stage in reversed(self.stages) if position > stage.first), self.stages[0])
        return stage.spent(position - stage.first)

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or all runs have diverged."""
        return self.done >= self.steps or all(run.divergence for run in self.runs)

    def advance_block(self) -> None:
        """Execute the block that starts at `position`."""
        stage, start, began = self.stage, self.stage.position, time.perf_counter()
        done = stage.advance_block(self.runs)
        sampled = time.perf_counter()
        self.clock.sampling += sampled - began
        self._observe(done, start)
        self.clock.observing += time.perf_counter() - sampled
        if stage.at_end and stage is not self.stages[-1]:
            self.stage = self.stages[self.stages.index(stage) + 1]
            self.stage.begin(stage.theta)

    def _observe(self, done: Advanced, start: int) -> None:
        """Give the runs the draws of a block that started at this step of its stage."""
        draws = done.draws
        if not len(draws):
            return
        logs = draws.new_zeros(draws.shape[:2]) if done.log_weights is None else done.log_weights
        steps = np.flatnonzero(self.stage.trajectory.keep[start : self.stage.position]) + start + 1
        if self.by_step_size:
            logs = logs + self.stage.h[torch.from_numpy(steps - 1).to(self.device)].log()[:, None]
        if (count := self.sampler.particles) > 1:  # one draw for each particle
            draws = draws.unflatten(2, (count, -1)).movedim(2, 1).flatten(0, 1)
            logs = logs.repeat_interleave(count, 0)
            steps = ((steps - 1)[:, None] * count + np.arange(1, count + 1)).ravel()
        draws = self.problem.original(draws)
        for run in self.runs:
            run.take(draws[:, run.rows], logs[:, run.rows], steps)

    def checkpoint(self, run: RunState) -> dict[str, Tensor]:
        """Return all that `run` needs to continue from `position`, as tensors that a safetensors file can hold."""
        self.stage.record_lost(self.runs)
        tensors = self.stage.tensors(run.rows)
        tensors |= {f"problem/{name}": leaf[run.rows] for name, leaf in self.problem.state().items()}
        tensors |= {f"observer/{name}": leaf for name, leaf in run.observer.state().items()}
        lost = run.divergence
        where = [lost.step, lost.chain, lost.seen_at] if lost else [-1, -1, -1]
        tensors["counters"] = torch.tensor([self.position, run.kept, run.stored, *where], dtype=torch.int64)
        tensors["draw_stride"] = torch.tensor(run.stride)
        tensors["draw_width"] = torch.tensor(self.problem.dim + run.weighted)
        tensors["log_weight_unit"] = torch.tensor(run.log_weight_unit, dtype=torch.float64)
        return {name: leaf.detach().cpu().contiguous().clone() for name, leaf in tensors.items()}

    def restore(self, checkpoints: Sequence[Mapping[str, Tensor]]) -> None:
        """Continue from the checkpoints of the runs, one for each run, all taken at the same position."""
        positions = {int(c["counters"][0]) for c in checkpoints}
        if len(positions) != 1:
            raise ValueError(f"checkpoints of one block differ in position: {sorted(positions)}")
        position = positions.pop()
        self.stage = next(stage for stage in reversed(self.stages) if position >= stage.first)
        joined = {
            name: torch.cat([c[name] for c in checkpoints])
            for name in checkpoints[0]
            if name in ("theta", "noise") or name.startswith(("state/", "problem/"))
        }
        self.stage.restore(joined, position - self.stage.first)
        self.problem.load({n.removeprefix("problem/"): t for n, t in joined.items() if n.startswith("problem/")})
        for run, tensors in zip(self.runs, checkpoints, strict=True):
            prefix = "observer/"
            run.observer.load({n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)})
            _, run.kept, run.stored, *where = (int(v) for v in tensors["counters"])
            run.divergence = Divergence(*where) if where[0] >= 0 else None
            run.stride = int(tensors["draw_stride"])  # that of the draws on disk, whatever this command asks for
            run.log_weight_unit = float(tensors["log_weight_unit"])
