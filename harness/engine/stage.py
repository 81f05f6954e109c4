"""A stage of a loop: one sampler on one trajectory, which advances the chains block by block.

The trajectory is cut where the temperature becomes zero or not, where the burn-in ends, and at every noise block. The
cuts depend on sampler, schedule and dimension alone, so a run's numbers do not depend on the runs beside it, and a
restored run has the same cuts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from harness.contracts.randomness import Slot, Streams, chain_noise
from harness.contracts.task import Cost, data_passes
from harness.engine.run_state import Divergence, RunState
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
from harness.engine.stepping.noise import DirectNoise, Noise
from harness.engine.stepping.potential import CountingPotential, Potential
from harness.engine.trial import try_model
from harness.system.errors import PluginError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.contracts.sampler import Sampler, State
    from harness.contracts.schedule import Trajectory
    from harness.contracts.task import Batch, Problem, Task
    from harness.engine.stepping.block import Advanced

COORDINATES = 1000
"""Number of coordinates that are kept of the last finite position of a chain that was lost, for inspection."""

LOOK = 50
"""Number of steps between two checks for lost chains, if a block is one step and another device computes it."""


class Stage:
    """The chains of a loop under one sampler and its trajectory; `position` counts its finished steps.

    `first` is the number that `Loop.position` has before its first step, and `spent_before` a chain's data passes in
    earlier stages. The code of a compiled mode is made here: `UncompiledError` if it cannot be made.
    """

    def __init__(
        self,
        task: Task,
        problem: Problem,
        sampler: Sampler,
        trajectory: Trajectory,
        streams: Sequence[Streams],
        *,
        mode: str,
        device: str,
        first: int = 0,
        spent_before: float = 0.0,
    ) -> None:
        self.task, self.problem, self.sampler, self.trajectory = task, problem, sampler, trajectory
        self.streams, self.device, self.first = streams, device, first
        self.refresh_every = sampler.refresh_every * trajectory.substeps
        self.position = 0
        self.dtype: torch.dtype = getattr(torch, task.dtype)
        self.h = torch.from_numpy(trajectory.step_size).to(device, self.dtype)
        self.T = torch.from_numpy(trajectory.temperature).to(device, self.dtype)
        self.theta = problem.initial().to(self.dtype)
        try_model(problem, self.theta)
        self.potential = CountingPotential(
            problem, task.terms(), shape=self.theta.shape, owner=type(sampler).__name__,
            batches=sampler.batches_per_step,
            calls_per_batch=max(1, sampler.gradients_per_step // sampler.batches_per_step),
        )  # fmt: skip
        self.stepper = stepper(mode, sampler, self.potential, task, problem.dim, device)
        carried = _copies(problem.state())
        self.state, at_start = self._init_state()
        slots, per_step, self.weighted, self.full_gradients = self._probe(len(streams))
        problem.load(carried)
        self.cost = Cost(at_start + spent_before, per_step)
        self.lost_at = torch.zeros(len(streams), dtype=torch.int64, device=device)
        self.noise = chain_noise(streams, device, self.dtype, slots, trajectory.substeps)
        most = max(1, (problem.block_limit or len(trajectory)) // sampler.batches_per_step) * trajectory.substeps
        length = min(self.noise.block_length(problem.dim), most)
        self.ends = dict(cut(trajectory, length, self.refresh_every))
        self._make_code()

    def _make_code(self) -> None:
        """Make the code of every kind of block, so that it is known before the first step whether it can be made."""
        burn_in, heated = self.trajectory.burn_in, self.trajectory.temperature > 0
        first_of_kind = {(bool(burn_in[k]), bool(heated[k])): k for k in reversed(self.ends)}
        drawn_to, carried = self.noise.state(), _copies(self.problem.state())
        for k in first_of_kind.values():
            with torch.no_grad():
                self.stepper.make(self.theta, self.state, self._block(k, k + self.trajectory.substeps))
            self.noise.load(drawn_to)
            self.problem.load(carried)

    @property
    def at_end(self) -> bool:
        """Whether all its steps are done."""
        return self.position >= len(self.trajectory)

    def spent(self, steps: int) -> float:
        """Return a chain's data passes by the end of this many of its steps, with those of earlier stages."""
        return self.cost.at_start + steps * self.cost.per_step

    def begin(self, theta: Tensor) -> None:
        """Start from these positions, where the stage before ended, on the minibatches that follow."""
        self.theta = torch.empty_like(self.theta).copy_(theta)
        carried = _copies(self.problem.state())
        self.state, _ = self._init_state()
        self.problem.load(carried)

    def advance_block(self, runs: Sequence[RunState]) -> Advanced:
        """Execute the block that starts at `position`, and record the divergence of `runs`."""
        start, stop = self.position, self.ends[self.position]
        if start and self.refresh_every and start % self.refresh_every == 0:
            self._refresh()
        block = self._block(start, stop)
        before = None if self.stepper.in_place else (self.theta, self.state)
        with torch.no_grad():
            done = self.stepper.advance(self.theta, self.state, block)
        check_calls(self.sampler, self.potential.take_counts(), "code between two steps", (0, 0))
        if not self.stepper.in_place:
            check_returned(self.sampler, done.theta, done.state, self.theta, self.state)
        self.theta, self.state, self.position = done.theta, done.state, stop
        lost = ~finite(drawn(self.sampler, self.theta, self.state)) * len(block) if done.lost is None else done.lost
        if done.log_weights is not None:
            lost = lost.where((done.log_weights < math.inf).all(dim=0) | (lost > 0), len(block))  # NaN is not below inf
        self.lost_at = self.lost_at.where((self.lost_at > 0) | (lost == 0), start + lost)
        checking = self.device == "cpu" or len(done.draws) or stop - start > 1 or stop % LOOK == 0 or self.at_end
        if checking:  # on a GPU a check waits for all pending work
            self.record_lost(runs, before, block, start)
        return done

    def tensors(self, rows: slice) -> dict[str, Tensor]:
        """Return what these chains need to continue from `position`, without the problem's part."""
        return {
            "theta": self.theta[rows], "noise": self.noise.state()[rows],
            **{f"state/{name}": leaf[rows] for name, leaf in self.state.items()},
        }  # fmt: skip

    def restore(self, tensors: Mapping[str, Tensor], position: int) -> None:
        """Continue from `position`, with the tensors of all chains."""
        self.position = position
        # empty_like keeps the task's memory order, on which the last bit of a reduction may depend.
        self.theta = torch.empty_like(self.theta).copy_(tensors["theta"])
        self.noise.load(tensors["noise"])
        self.state = {name: torch.empty_like(leaf).copy_(tensors[f"state/{name}"]) for name, leaf in self.state.items()}

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
        """Raise `PluginError` if `init` makes more calls on a batch than a step, or more full ones than may be free."""
        sampler = self.sampler
        first = min(1, sampler.full_gradients_per_step)
        most = sampler.gradients_per_step, sampler.full_gradients_at_start + first
        if counted[0] > most[0] or counted[1] > most[1]:
            raise self._broken(
                f"init: it makes {counted} calls (on the batch, on all the data), more than {most}: those on "
                "the batch of a step, full_gradients_at_start and one more where steps make full ones; declare full "
                "gradients there, so that the budget pays for them"
            )

    def _broken(self, what: str) -> PluginError:
        return PluginError(f"{type(self.sampler).__name__}.{what}")

    def _peek_batch(self) -> Batch | None:
        """Return the batch of the next step, and leave the problem's state as it was."""
        before = _copies(self.problem.state())
        batch = split(self.potential.draw_batches(1), 1)[0]
        self.problem.load(before)
        return batch

    def _probe(self, rows: int) -> tuple[list[Slot], float, bool, bool]:
        """Return the noise slots and the cost of a step, and whether it weights draws, and has full gradients only.

        They come from a separate step, whose results are checked and not used.
        """
        noise = DirectNoise([Streams(0, 0, ("probe",)).torch("noise", self.device)] * rows, self.dtype)
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
        full, cost = not counted[0] or self._passes((1, 0)) == 1, self._passes(counted, self.refresh_every)
        return noise.slots, cost, weight is not None, full

    def _passes(self, calls: tuple[int, int], refresh_every: int = 0) -> float:
        price = self.task.gauss_newton_gradients() if "gauss_newton" in self.sampler.needs else 1
        return data_passes(calls, self.task.batch_terms(), self.task.priced_terms(), refresh_every, price)

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
            batches=self.potential.draw_batches(stop - start),
            keep=self.trajectory.keep[start:stop],
            adapt=bool(self.trajectory.burn_in[start]),
        )

    def record_lost(
        self,
        runs: Sequence[RunState],
        before: tuple[Tensor, State] | None = None,
        block: Block | None = None,
        start: int = 0,
    ) -> None:
        """Record the divergence of the runs that have lost a chain.

        In a block of several steps, the step is found by repeating the block.
        """
        lost_at = self.lost_at.cpu().numpy()
        fresh = [run for run in runs if run.divergence is None and lost_at[run.rows].any()]
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
            run.divergence = Divergence(step=step, chain=chain, seen_at=self.first + self.position)
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
            done = self.stepper.advance(theta, state, replace(block, keep=keep))
        fine = finite(done.draws)
        if done.log_weights is not None:
            fine = fine & (done.log_weights < math.inf)
        lost = ~fine.cpu().numpy()
        before = drawn(self.sampler, theta, state)[None]
        return torch.cat([before, done.draws]), np.where(lost.any(axis=0), lost.argmax(axis=0) + 1, 0)


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: leaf.clone() for name, leaf in tensors.items()}
