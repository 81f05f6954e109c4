"""Advances the chains of a block of runs along their trajectory: stages, observation, divergence, checkpoints.

The trajectory is cut where the stage changes (temperature zero or not, burn-in or not) and at every noise block; the
cuts depend on sampler, schedule and dimension alone, so a run's numbers do not depend on what runs beside it, and a
restored run meets the same cuts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from harness.errors import PluginError
from harness.randomness import ChainNoise, Slot, Streams
from harness.stepping import Block, BoundPotential, CountingPotential, DirectNoise, advance

if TYPE_CHECKING:
    from torch import Tensor

    from harness.sampler import Sampler, State
    from harness.schedule import Trajectory
    from harness.task import Batch, Observer, Problem, Task


@dataclass(frozen=True)
class Divergence:
    """Where a chain became non-finite: the step, counted from 1, and the chain within its run."""

    step: int
    chain: int


@dataclass
class Clock:
    """Wall seconds of a block of runs, by what they were spent on."""

    sampling: float = 0.0
    observing: float = 0.0


class Run:
    """One run within the block: its rows, its observer, the draws not yet fetched, and its divergence if any."""

    def __init__(self, rows: slice, observer: Observer, stride: int) -> None:
        self.rows = rows
        self.observer = observer
        self.stride = stride
        self.kept = 0
        self.stored = 0
        self.pending: list[np.ndarray] = []
        self.divergence: Divergence | None = None

    def take(self, draws: Tensor, weights: Tensor, steps: np.ndarray) -> None:
        """Observe kept draws (B, C, D) and put every `stride`-th aside for the draws file, as float32."""
        if self.divergence is not None or not len(steps):
            return
        self.observer.observe(draws, weights, steps)
        first = -self.kept % self.stride
        self.pending.append(draws[first :: self.stride].to(torch.float32).cpu().numpy())
        self.kept += len(steps)
        self.stored += len(self.pending[-1])

    def fetch(self) -> np.ndarray | None:
        """The draws (B, C, D) put aside since the last call."""
        if not self.pending:
            return None
        draws = np.concatenate(self.pending)
        self.pending = []
        return draws


class Loop:
    """R runs of C chains each that differ only in their seed, as R*C rows of one tensor.

    `streams` has one entry a row, run after run. `advance_block` does one block; `position` counts finished steps.
    """

    def __init__(
        self,
        task: Task,
        sampler: Sampler,
        trajectory: Trajectory,
        streams: Sequence[Streams],
        chains: int,
        *,
        device: str = "cpu",
        draw_stride: int = 1,
    ) -> None:
        self.sampler = sampler
        self.trajectory = trajectory
        self.device = device
        self.dtype: torch.dtype = getattr(torch, task.dtype)
        self.problem: Problem = task.build(streams, device)
        self.potential = BoundPotential(self.problem, task.terms())
        self.clock = Clock()
        self.position = 0
        self.h = torch.from_numpy(trajectory.step_size).to(device, self.dtype)
        self.T = torch.from_numpy(trajectory.temperature).to(device, self.dtype)
        self.theta = self.problem.initial().to(self.dtype)
        self.state, init_cost = self._init_state(task, streams)
        slots, step_cost = self._probe(task, len(streams))
        self.passes_at_start = init_cost
        self.passes_per_step = step_cost
        self.noise = ChainNoise([s.torch("noise", device) for s in streams], slots)
        self.blocks = list(cut(trajectory, self.noise.block_length()))
        self.runs = [
            Run(rows, self.problem.observer(rows, trajectory, step_cost), draw_stride)
            for rows in (slice(r, r + chains) for r in range(0, len(streams), chains))
        ]

    def _init_state(self, task: Task, streams: Sequence[Streams]) -> tuple[State, float]:
        noise = DirectNoise([s.torch("sampler-init", self.device) for s in streams], self.dtype)
        potential = CountingPotential(self.problem, task.terms(), self._peek_batch())
        state = self.sampler.init(self.theta, potential, self.h[0], self.T[0], noise)
        for name, leaf in state.items():
            if not isinstance(leaf, torch.Tensor) or leaf.ndim < 1 or len(leaf) != len(streams):
                raise PluginError(
                    f"{type(self.sampler).__name__}.init: state {name!r} must be a tensor whose leading axis is the "
                    f"{len(streams)} chains"
                )
        return state, _passes(potential, task)

    def _peek_batch(self) -> Batch | None:
        """The batch of the next step, leaving the problem where it was."""
        before = {name: leaf.clone() for name, leaf in self.problem.state().items()}
        batch = _split(self.problem.draw_batches(1), 1)[0]
        self.problem.load(before)
        return batch

    def _probe(self, task: Task, rows: int) -> tuple[list[Slot], float]:
        """The noise slots and the cost in data passes of one step, from a step on the side."""
        generators = [Streams(0, row, ("probe",)).torch("noise", self.device) for row in range(rows)]
        noise = DirectNoise(generators, self.dtype)
        potential = CountingPotential(self.problem, task.terms(), self._peek_batch())
        warm = torch.ones_like(self.T[0])
        self.sampler.step(self.theta, dict(self.state), potential, self.h[0], warm, noise)
        declared = (self.sampler.gradients_per_step, self.sampler.full_gradients_per_step)
        counted = (potential.calls, potential.full_calls)
        if declared != counted:
            raise PluginError(
                f"{type(self.sampler).__name__} declares (gradients_per_step, full_gradients_per_step) = {declared}, "
                f"its step makes {counted} calls"
            )
        return noise.slots, _passes(potential, task)

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or no run is left that has not diverged."""
        return self.position >= len(self.trajectory) or all(run.divergence for run in self.runs)

    def advance_block(self) -> None:
        """Do the block that starts at `position`."""
        start, stop = next(b for b in self.blocks if b[0] == self.position)
        began = time.perf_counter()
        block = self._block(start, stop)
        before = (self.theta, self.state)
        with torch.no_grad():
            done = advance(self.sampler, self.potential, self.theta, self.state, block)
        self.theta, self.state, self.position = done.theta, done.state, stop
        finite = torch.isfinite(self.theta).all(dim=1).cpu()
        sampled = time.perf_counter()
        self.clock.sampling += sampled - began
        if any(run.divergence is None and not bool(finite[run.rows].all()) for run in self.runs):
            self._locate(finite, before, block, start)
        self._observe(done.draws, done.log_weights, start, stop)
        self.clock.observing += time.perf_counter() - sampled

    def _block(self, start: int, stop: int) -> Block:
        heated = bool(self.trajectory.temperature[start] > 0)
        return Block(
            h=self.h[start:stop].unbind(0),
            T=self.T[start:stop].unbind(0),
            noise=self.noise.draw(stop - start, heated=heated),
            batches=_split(self.problem.draw_batches(stop - start), stop - start),
            keep=self.trajectory.keep[start:stop].tolist(),
            adapt=bool(self.trajectory.burn_in[start]),
        )

    def _observe(self, draws: list[Tensor], log_weights: list[Tensor], start: int, stop: int) -> None:
        if not draws:
            return
        stacked = torch.stack(draws)
        weights = torch.stack(log_weights).exp() if log_weights else stacked.new_ones(stacked.shape[:2])
        steps = np.flatnonzero(self.trajectory.keep[start:stop]) + start + 1
        for run in self.runs:
            run.take(stacked[:, run.rows], weights[:, run.rows], steps)

    def _locate(self, finite: Tensor, before: tuple[Tensor, State], block: Block, start: int) -> None:
        """Find the step at which each newly lost chain became non-finite, by doing the block once more."""
        first = np.full(len(finite), -1)

        def note(k: int, theta: Tensor) -> bool:
            lost = ~torch.isfinite(theta).all(dim=1).cpu().numpy()
            first[lost & (first < 0)] = start + k + 1
            return bool((first[~finite.numpy()] >= 0).all())

        with torch.no_grad():
            advance(self.sampler, self.potential, *before, block, after=note)
        for run in self.runs:
            lost = first[run.rows]
            if run.divergence is None and (lost >= 0).any():
                chain = int(np.flatnonzero(lost == lost[lost >= 0].min())[0])
                run.divergence = Divergence(step=int(lost[chain]), chain=chain)

    def checkpoint(self, run: Run) -> dict[str, Tensor]:
        """All that `run` needs to go on from `position`, as tensors that a safetensors file can hold."""
        rows = run.rows
        tensors = {"theta": self.theta[rows], "noise": self.noise.state()[rows]}
        tensors |= {f"state/{name}": leaf[rows] for name, leaf in self.state.items()}
        tensors |= {f"problem/{name}": leaf[rows] for name, leaf in self.problem.state().items()}
        tensors |= {f"observer/{name}": leaf for name, leaf in run.observer.state().items()}
        lost = run.divergence
        counters = [self.position, run.kept, lost.step if lost else -1, lost.chain if lost else -1, run.stored]
        tensors["counters"] = torch.tensor(counters, dtype=torch.int64)
        return {name: leaf.detach().cpu().contiguous().clone() for name, leaf in tensors.items()}

    def restore(self, checkpoints: Sequence[Mapping[str, Tensor]]) -> None:
        """Go on from the checkpoints of the runs, one each, all taken at the same position."""
        positions = {int(c["counters"][0]) for c in checkpoints}
        if len(positions) != 1:
            raise ValueError(f"checkpoints of one block differ in position: {sorted(positions)}")
        self.position = positions.pop()
        joined = {
            name: torch.cat([c[name] for c in checkpoints])
            for name in checkpoints[0]
            if not name.startswith("observer/") and name != "counters"
        }
        self.theta = joined["theta"].to(self.device)
        self.noise.load(joined["noise"])
        self.state = {name: joined[f"state/{name}"].to(self.device) for name in self.state}
        self.problem.load({n.removeprefix("problem/"): t for n, t in joined.items() if n.startswith("problem/")})
        for run, tensors in zip(self.runs, checkpoints, strict=True):
            prefix = "observer/"
            run.observer.load({n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)})
            _, run.kept, step, chain, run.stored = (int(v) for v in tensors["counters"])
            run.divergence = Divergence(step, chain) if step >= 0 else None


def cut(trajectory: Trajectory, length: int) -> Iterator[tuple[int, int]]:
    """The blocks (start, stop) of a trajectory: one stage each, at most `length` steps."""
    stage = np.stack([trajectory.temperature > 0, trajectory.burn_in])
    edges = np.flatnonzero((stage[:, 1:] != stage[:, :-1]).any(axis=0)) + 1
    for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), len(trajectory)], strict=True):
        yield from ((s, min(s + length, stop)) for s in range(start, stop, length))


def _split(batches: Batch, steps: int) -> list[Batch | None]:
    """Named tensors (steps, C, ...) as one dict a step; {} means that U is exact."""
    if not batches:
        return [None] * steps
    columns = {name: tensor.unbind(0) for name, tensor in batches.items()}
    return [{name: column[k] for name, column in columns.items()} for k in range(steps)]


def _passes(potential: CountingPotential, task: Task) -> float:
    return potential.calls * task.batch_terms() / task.terms() + potential.full_calls
