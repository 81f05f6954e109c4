"""The loop that advances the chains of a block of runs: stages, observation, divergence, checkpoints.

The trajectory is cut where the stage changes (temperature zero or not, burn-in or not) and at every noise block. The
cuts depend on sampler, schedule and dimension alone, so a run's numbers do not depend on the runs beside it, and a
restored run has the same cuts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from harness.contracts.randomness import ChainNoise, Slot, Streams
from harness.contracts.task import Cost, data_passes
from harness.engine.run_state import Clock, Divergence, RunState
from harness.engine.stepping import stepper
from harness.engine.stepping.block import (
    Block,
    check_calls,
    check_particles,
    check_returned,
    check_weights,
    cut,
    drawn,
    finite,
    split,
)
from harness.engine.stepping.making import tell_compiler
from harness.engine.stepping.noise import DirectNoise, Noise
from harness.engine.stepping.potential import CountingPotential, Potential
from harness.system.errors import PluginError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.contracts.sampler import Sampler, State
    from harness.contracts.schedule import Trajectory
    from harness.contracts.task import Batch, Observer, Problem, Task
    from harness.engine.stepping.block import Advanced


COORDINATES = 1000
"""Number of coordinates that are kept of the last finite position of a chain that was lost, for inspection."""

LOOK = 50
"""Number of steps between two checks for lost chains, if a block is one step and another device computes it."""


class Loop:
    """R runs of C chains each that differ only in their seed, as R*C rows of one tensor.

    `streams` has one entry for each row, run after run; `mode` says how steps are executed (see `stepping`); `weights`
    is "equal", or "step-size" for draws whose weight is the step size that made them, times the sampler's weights.
    `observer` makes the runs' observers in place of the problem's own.
    `warm_start` has an optimiser and its trajectory: the chains start at the positions where it ends, on the
    minibatches that follow. Only its cost is part of the run.
    The code of a compiled mode is made here: `UncompiledError` if it cannot be made. `executed` is the mode in which
    the steps are executed.
    `advance_block` executes one block; `position` counts finished steps, and is negative during the warm start.
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
        problem: Problem | None = None,
    ) -> None:
        self.task = task
        self.streams = streams
        self.sampler = sampler
        self.trajectory = trajectory
        self.by_step_size = weights == "step-size"
        self.device = device
        self.dtype: torch.dtype = getattr(torch, task.dtype)
        self.problem: Problem = task.build(streams, device) if problem is None else problem
        if mode == "network" and problem is None:
            tell_compiler()
            self.problem.compile_network()
        self.stepper = stepper(mode, self.problem.dim, device, opaque=task.opaque)
        self.executed = mode if mode == "network" else self.stepper.mode
        self.clock = Clock()
        self.warm: Loop | None = None
        if warm_start:
            self.warm = Loop(task, *warm_start, streams, chains, mode=mode, device=device, problem=self.problem)
            self.warm.clock = self.clock
        self.first = -len(self.warm.trajectory) if self.warm else 0
        self.position = self.first
        self.h = torch.from_numpy(trajectory.step_size).to(device, self.dtype)
        self.T = torch.from_numpy(trajectory.temperature).to(device, self.dtype)
        self.theta = self.problem.initial().to(self.dtype)
        self.potential = CountingPotential(
            self.problem, task.terms(), shape=self.theta.shape, owner=type(sampler).__name__
        )
        carried = _copies(self.problem.state())
        self.state, at_start = self._init_state()
        slots, per_step, weighted = self._probe(len(streams))
        self.problem.load(carried)
        self.cost = Cost(at_start + (self.warm.spent(-self.first) if self.warm else 0.0), per_step)
        self.lost_at = torch.zeros(len(streams), dtype=torch.int64, device=device)
        self.noise = ChainNoise([s.fastest("noise", device, self.dtype) for s in streams], slots)
        length = min(self.noise.block_length(self.problem.dim), self.problem.block_limit or len(trajectory))
        self.ends = dict(cut(trajectory, length, sampler.refresh_every))
        seen, cost = trajectory.shared(sampler.particles), self.cost.shared(sampler.particles)
        make, weighted = observer or self.problem.observer, weighted or self.by_step_size
        self.runs = [
            RunState(rows, make(rows, seen, cost), draw_stride, sampler.particles, weighted=weighted)
            for rows in (slice(r, r + chains) for r in range(0, len(streams) if problem is None else 0, chains))
        ]
        if self.warm:
            self.warm.runs = self.runs
        self._make_code()

    def _make_code(self) -> None:
        """Make the code of every kind of block, so that it is known before the first step whether it can be made."""
        burn_in, heated = self.trajectory.burn_in, self.trajectory.temperature > 0
        first_of_kind = {(bool(burn_in[k]), bool(heated[k])): k for k in reversed(self.ends)}
        drawn_to, carried = self.noise.state(), _copies(self.problem.state())
        for k in first_of_kind.values():
            with torch.no_grad():
                self.stepper.make(self.sampler, self.potential, self.theta, self.state, self._block(k, k + 1))
            self.noise.load(drawn_to)
            self.problem.load(carried)

    def spent(self, steps: int) -> float:
        """Return a chain's data passes by the end of this many steps."""
        if self.warm and steps <= 0:
            return self.warm.spent(steps - self.first)
        return self.cost.at_start + steps * self.cost.per_step

    def _init_state(self) -> tuple[State, float]:
        streams = self.streams
        noise = DirectNoise([s.torch("sampler-init", self.device) for s in streams], self.dtype)
        potential = self.potential.on(self._peek_batch(), self.theta.shape)
        h, T = self.h[0].clone(), self.T[0].clone()  # a view would give access to the whole trajectory
        state = self.sampler.init(self.theta, Potential(potential, self.sampler), h, T, Noise(noise))
        counted = potential.take_counts()
        potential.end()
        noise.end()
        self._check_init(counted)
        if not isinstance(state, dict):
            raise self._broken(f"init: the state must be a dict of tensors, and is a {type(state).__name__}")
        for name, leaf in state.items():
            if not isinstance(leaf, torch.Tensor) or leaf.ndim < 1 or len(leaf) != len(streams):
                raise self._broken(
                    f"init: state {name!r} must be a tensor whose leading axis is the {len(streams)} chains"
                )
            if leaf.device != self.theta.device:
                raise self._broken(f"init: state {name!r} is on {leaf.device}, theta on {self.theta.device}")
        if self.stepper.in_place:
            state = {name: leaf.clone() for name, leaf in state.items()}  # no entry may be theta, or another entry
        return state, self._passes(counted)

    def _check_init(self, counted: tuple[int, int]) -> None:
        """Raise `PluginError` if `init` makes more gradient calls than a step, or more full ones than declared."""
        sampler = self.sampler
        most = sampler.gradients_per_step, sampler.full_gradients_per_step + sampler.full_gradients_at_start
        if counted[0] > most[0] or counted[1] > most[1]:
            raise self._broken(
                f"init: it makes {counted} calls (on the batch, on all the data), more than {most}: those of a step "
                "and full_gradients_at_start; declare full gradients there, so that the budget pays for them"
            )

    def _broken(self, what: str) -> PluginError:
        return PluginError(f"{type(self.sampler).__name__}.{what}")

    def _peek_batch(self) -> Batch | None:
        """Return the batch of the next step, and leave the problem's state as it was."""
        before = _copies(self.problem.state())
        batch = split(self.problem.draw_batches(1), 1)[0]
        self.problem.load(before)
        return batch

    def _probe(self, rows: int) -> tuple[list[Slot], float, bool]:
        """Return the noise slots of one step, its cost in data passes, and whether the sampler weights its draws.

        They come from a separate step, whose results are checked and not used.
        """
        generators = [Streams(0, row, ("probe",)).torch("noise", self.device) for row in range(rows)]
        noise = DirectNoise(generators, self.dtype)
        potential = self.potential.on(self._peek_batch(), self.theta.shape)
        h, warm = self.h[0].clone(), torch.ones_like(self.T[0])
        with torch.no_grad():
            theta, state = self.sampler.step(
                self.theta, dict(self.state), Potential(potential, self.sampler), h, warm, Noise(noise)
            )
        check_returned(self.sampler, theta, state, self.theta, self.state)
        check_particles(self.sampler, theta, state)
        weight = self.sampler.log_weight(state)
        if weight is not None:
            check_weights(self.sampler, weight, (rows,))
        counted = potential.take_counts()
        check_calls(self.sampler, counted)
        potential.end()
        noise.end()
        return noise.slots, self._passes(counted, self.sampler.refresh_every), weight is not None

    def _passes(self, calls: tuple[int, int], refresh_every: int = 0) -> float:
        return data_passes(calls, self.task.batch_terms(), self.task.terms(), refresh_every)

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or all runs have diverged."""
        return self._at_end or all(run.divergence for run in self.runs)

    @property
    def _at_end(self) -> bool:
        return self.position >= len(self.trajectory)

    def advance_block(self) -> None:
        """Execute the block that starts at `position`."""
        if self.warm and self.position < 0:
            self._advance_warm_start(self.warm)
            return
        start, stop = self.position, self.ends[self.position]
        began = time.perf_counter()
        if start and self.sampler.refresh_every and start % self.sampler.refresh_every == 0:
            self._refresh()
        block = self._block(start, stop)
        before = None if self.stepper.in_place else (self.theta, self.state)
        with torch.no_grad():
            done = self.stepper.advance(self.sampler, self.potential, self.theta, self.state, block)
        check_calls(self.sampler, self.potential.take_counts(), "code between two steps", (0, 0))
        if not self.stepper.in_place:
            check_returned(self.sampler, done.theta, done.state, self.theta, self.state)
        self.theta, self.state, self.position = done.theta, done.state, stop
        lost = ~finite(self._drawn()) * len(block) if done.lost is None else done.lost
        if done.log_weights is not None:
            lost = lost.where((done.log_weights < math.inf).all(dim=0) | (lost > 0), len(block))  # NaN is not below inf
        self.lost_at = self.lost_at.where((self.lost_at > 0) | (lost == 0), start + lost)
        checking = self.device == "cpu" or len(done.draws) or stop - start > 1 or stop % LOOK == 0 or self._at_end
        if checking:  # on a GPU a check waits for all pending work
            self._record_lost(before, block, start)
        sampled = time.perf_counter()
        self.clock.sampling += sampled - began
        self._observe(done, start, stop)
        self.clock.observing += time.perf_counter() - sampled

    def _advance_warm_start(self, warm: Loop) -> None:
        warm.advance_block()
        self.position = self.first + warm.position
        for run in self.runs:
            if run.divergence and run.divergence.seen_at > 0:
                run.divergence = replace(run.divergence, seen_at=self.position)
        if self.position == 0:
            self.theta = torch.empty_like(self.theta).copy_(warm.theta)
            carried = _copies(self.problem.state())
            self.state, _ = self._init_state()
            self.problem.load(carried)

    def _refresh(self) -> None:
        with torch.no_grad():
            state = self.sampler.refresh(self.theta, dict(self.state), Potential(self.potential, self.sampler))
        check_returned(self.sampler, self.theta, state, self.theta, self.state, "refresh")
        check_calls(self.sampler, self.potential.take_counts(), "refresh", (0, 1))
        if self.stepper.in_place:  # entries keep the memory that a recorded step reads, and none becomes theta
            fresh = {name: leaf.clone() for name, leaf in state.items()}
            for name, leaf in self.state.items():
                leaf.copy_(fresh[name])
        else:
            self.state = state

    def _block(self, start: int, stop: int) -> Block:
        heated = bool(self.trajectory.temperature[start] > 0)
        return Block(
            h=self.h[start:stop].clone(),
            T=self.T[start:stop].clone(),
            slots=self.noise.slots,
            noise=self.noise.draw(stop - start, heated=heated),
            batches=self.problem.draw_batches(stop - start),
            keep=self.trajectory.keep[start:stop],
            adapt=bool(self.trajectory.burn_in[start]),
        )

    def _drawn(self) -> Tensor:
        return drawn(self.sampler, self.theta, self.state)

    def _observe(self, done: Advanced, start: int, stop: int) -> None:
        draws = done.draws
        if not len(draws):
            return
        logs = draws.new_zeros(draws.shape[:2]) if done.log_weights is None else done.log_weights
        steps = np.flatnonzero(self.trajectory.keep[start:stop]) + start + 1
        if self.by_step_size:
            logs = logs + self.h[torch.from_numpy(steps - 1).to(self.device)].log()[:, None]
        if (count := self.sampler.particles) > 1:  # one draw for each particle
            draws = draws.unflatten(2, (count, -1)).movedim(2, 1).flatten(0, 1)
            logs = logs.repeat_interleave(count, 0)
            steps = ((steps - 1)[:, None] * count + np.arange(1, count + 1)).ravel()
        for run in self.runs:
            run.take(draws[:, run.rows], logs[:, run.rows], steps)

    def _record_lost(
        self, before: tuple[Tensor, State] | None = None, block: Block | None = None, start: int = 0
    ) -> None:
        """Record the chains that were lost. In a block of several steps, the step is found by repeating the block."""
        lost_at = self.lost_at.cpu().numpy()
        fresh = [run for run in self.runs if run.divergence is None and lost_at[run.rows].any()]
        if not fresh:
            return
        positions = None
        if before is not None and block is not None:
            positions, within = self._repeat(*before, block)
            lost_at = np.where((lost_at > start) & (within > 0), start + within, lost_at)
        first = np.where(lost_at > 0, lost_at, len(self.trajectory) + 1)
        for run in fresh:
            chain = int(first[run.rows].argmin())
            step = int(first[run.rows][chain])
            run.divergence = Divergence(step=step, chain=chain, seen_at=self.position)
            if positions is not None:
                run.last_finite = positions[step - start - 1][run.rows][chain][:COORDINATES].clone()

    def _repeat(self, theta: Tensor, state: State, block: Block) -> tuple[Tensor, NDArray[np.int64]]:
        """Return the positions (B + 1, C, P D) in a block, and the step, counted from 1, at which each chain was lost.

        The step is 0 for a chain that was not lost.
        """
        if len(block) == 1:
            return drawn(self.sampler, theta, state)[None], np.ones(len(theta), dtype=np.int64)
        with torch.no_grad():
            keep = np.ones(len(block), dtype=bool)
            done = self.stepper.advance(self.sampler, self.potential, theta, state, replace(block, keep=keep))
        fine = finite(done.draws)
        if done.log_weights is not None:
            fine = fine & (done.log_weights < math.inf)
        lost = ~fine.cpu().numpy()
        before = drawn(self.sampler, theta, state)[None]
        return torch.cat([before, done.draws]), np.where(lost.any(axis=0), lost.argmax(axis=0) + 1, 0)

    def checkpoint(self, run: RunState) -> dict[str, Tensor]:
        """Return all that `run` needs to continue from `position`, as tensors that a safetensors file can hold."""
        if self.warm and self.position < 0:
            tensors = self.warm.checkpoint(run)
            tensors["counters"][0] += self.first
            return tensors
        self._record_lost()
        rows = run.rows
        tensors = {"theta": self.theta[rows], "noise": self.noise.state()[rows]}
        tensors |= {f"state/{name}": leaf[rows] for name, leaf in self.state.items()}
        tensors |= {f"problem/{name}": leaf[rows] for name, leaf in self.problem.state().items()}
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
        self.position = positions.pop()
        if self.warm and self.position < 0:
            self.warm.restore(checkpoints)
            self.warm.position -= self.first
            return
        joined = {
            name: torch.cat([c[name] for c in checkpoints])
            for name in checkpoints[0]
            if name in ("theta", "noise") or name.startswith(("state/", "problem/"))
        }
        # empty_like keeps the task's memory order, on which the last bit of a reduction may depend.
        self.theta = torch.empty_like(self.theta).copy_(joined["theta"])
        self.noise.load(joined["noise"])
        self.state = {n: torch.empty_like(leaf).copy_(joined[f"state/{n}"]) for n, leaf in self.state.items()}
        self.problem.load({n.removeprefix("problem/"): t for n, t in joined.items() if n.startswith("problem/")})
        for run, tensors in zip(self.runs, checkpoints, strict=True):
            prefix = "observer/"
            run.observer.load({n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)})
            _, run.kept, run.stored, *where = (int(v) for v in tensors["counters"])
            run.divergence = Divergence(*where) if where[0] >= 0 else None
            run.stride = int(tensors["draw_stride"])  # that of the draws on disk, whatever this command asks for
            run.log_weight_unit = float(tensors["log_weight_unit"])


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: leaf.clone() for name, leaf in tensors.items()}
