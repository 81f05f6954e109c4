"""A block of runs in a worker: the loop, the attempts it writes, and how they begin, pause and end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from harness import environment
from harness.execution.worker import Job
from harness.facts import instance
from harness.ledger.attempt import Attempt, now
from harness.ledger.files import read_json
from harness.ledger.ledger import Ledger
from harness.loop import Loop, Run
from harness.randomness import Streams
from harness.spec import RunSpec

DRAW_BYTES = 64 * 2**20
"""Most bytes of draws that a run keeps; longer runs keep every so-many-th."""

Send = Callable[[str, dict[str, Any]], None]
Arrays = dict[str, np.ndarray]


class Session:
    """Runs of one block from the same position on. Everything it writes goes through their attempts."""

    def __init__(
        self, specs: Sequence[RunSpec], attempts: Sequence[Attempt], checkpoints: Sequence[Arrays], job: Job, send: Send
    ) -> None:
        began = time.perf_counter()
        self.specs, self.attempts, self.send = list(specs), list(attempts), send
        self.loop = build(specs, job)
        self.task = instance(specs[0].task.target, specs[0].task.params)
        self.started = now()
        self.seconds = {"setup": 0.0, "sampling": 0.0, "observing": 0.0, "checkpoint": 0.0}
        self._first_position = 0
        if checkpoints:
            self._restore(checkpoints)
        for attempt in self.attempts:
            attempt.event("resumed" if checkpoints else "started", position=self.loop.position, device=job.device)
        self._warn_of_instability()
        self.seconds["setup"] += time.perf_counter() - began

    @classmethod
    def open_all(cls, ledger: Ledger, specs: Sequence[RunSpec], job: Job, send: Send) -> Iterator[Session]:
        """Sessions over all specs: one for the fresh runs, one for each position that checkpoints are at."""
        build(specs[:1], job)  # a setting that cannot work is refused before anything is written
        here = environment.collect(job.device, job.distributions)
        groups: dict[int, list[tuple[RunSpec, Attempt, Arrays | None]]] = {}
        for spec in specs:
            attempt, checkpoint = _open(ledger, spec, here)
            position = int(checkpoint["counters"][0]) if checkpoint else 0
            groups.setdefault(position, []).append((spec, attempt, checkpoint))
        for _, members in sorted(groups.items()):
            some, attempts, checkpoints = zip(*members, strict=True)
            yield cls(some, attempts, [c for c in checkpoints if c is not None], job, send)

    @staticmethod
    def measure(specs: Sequence[RunSpec], job: Job) -> float:
        """Steps a second of these runs together, over `job.measure_steps` steps after as many to warm up."""
        steps = job.measure_steps
        loop = build(specs, job, trajectory_steps=2 * steps)
        loop.blocks = [(0, steps), (steps, 2 * steps)]
        loop.advance_block()
        began = time.perf_counter()
        loop.advance_block()
        return steps / (time.perf_counter() - began)

    @property
    def finished(self) -> bool:
        """Whether the loop is at its end."""
        return self.loop.finished

    def advance(self) -> None:
        """Do one block of steps and put its draws on disk."""
        self.loop.advance_block()
        for run, attempt, spec in zip(self.loop.runs, self.attempts, self.specs, strict=True):
            draws = run.fetch()
            if draws is not None:
                attempt.append_draws(draws)
            if run.divergence and attempt.last_event() != "diverged":
                where = {"step": run.divergence.step, "chain": run.divergence.chain, "seed": spec.seed}
                attempt.event("diverged", **where)
                self.send("diverged", {"key": spec.key, "method": spec.method, "task": spec.task.name, **where})

    def progress(self) -> dict[str, Any]:
        """Where the block is, for the launcher's bar."""
        position = self.loop.position
        done = position - self._first_position
        return {
            "keys": [spec.key for spec in self.specs],
            "position": position,
            "steps": len(self.loop.trajectory),
            "rate": done / max(self.loop.clock.sampling + self.loop.clock.observing, 1e-9),
            "step_size": float(self.loop.trajectory.step_size[min(position, len(self.loop.trajectory) - 1)]),
        }

    def checkpoint(self) -> None:
        """Write a checkpoint of every run."""
        began = time.perf_counter()
        for run, attempt in zip(self.loop.runs, self.attempts, strict=True):
            arrays = {name: tensor.numpy() for name, tensor in self.loop.checkpoint(run).items()}
            arrays["seconds"] = np.array(list(self._spent().values()))
            attempt.save_checkpoint(arrays)
            attempt.event("checkpoint", position=self.loop.position)
        self.seconds["checkpoint"] += time.perf_counter() - began

    def suspend(self, reason: str) -> None:
        """Stop here: a checkpoint and an event; the same command goes on from it."""
        self.checkpoint()
        for attempt, spec in zip(self.attempts, self.specs, strict=True):
            attempt.event(reason, position=self.loop.position)
            self.send("suspended", {"key": spec.key, "status": reason})

    def conclude(self) -> None:
        """Write the results."""
        for run, attempt, spec in zip(self.loop.runs, self.attempts, self.specs, strict=True):
            lost = run.divergence
            reason = f"chain {lost.chain} of seed {spec.seed} became non-finite at step {lost.step}" if lost else None
            result = self._record(run, attempt, spec) | {
                "status": "diverged" if lost else "done",
                "reason": reason,
                "step": lost.step if lost else None,
                "chain": lost.chain if lost else None,
                "metrics": self._metrics(run, attempt),
            }
            attempt.conclude(result)
            self.send("finished", {"key": spec.key, "status": result["status"], "reason": reason or ""})

    def fail(self, error: Exception, trace: str) -> None:
        """Conclude with a status that says why there is no result."""
        lack = isinstance(error, torch.OutOfMemoryError | MemoryError)
        status = "out_of_memory" if lack else "error"
        reason = f"{type(error).__name__}: {error}"
        for run, attempt, spec in zip(self.loop.runs, self.attempts, self.specs, strict=True):
            attempt.event("traceback", text=trace)
            nothing = {"status": status, "reason": reason, "step": self.loop.position, "chain": None, "metrics": []}
            attempt.conclude(self._record(run, attempt, spec) | nothing)
            self.send("finished", {"key": spec.key, "status": status, "reason": reason})

    def _record(self, run: Run, attempt: Attempt, spec: RunSpec) -> dict[str, Any]:
        kept = np.flatnonzero(self.loop.trajectory.keep) + 1
        stored = attempt.seal_draws(spec.chains, self.loop.problem.dim, kept[:: run.stride])
        steps = self.loop.position
        return {
            "key": spec.key,
            "started": self.started,
            "finished": now(),
            "seconds": {name: value / len(self.specs) for name, value in self._spent().items()},
            "block_runs": len(self.specs),
            "steps_done": steps,
            "passes_per_step": self.loop.passes_per_step,
            "passes": self.loop.passes_at_start + steps * self.loop.passes_per_step,
            "draws_kept": run.kept,
            "draws_stored": stored,
            "draws_stride": run.stride,
        }

    def _metrics(self, run: Run, attempt: Attempt) -> list[dict[str, Any]]:
        values: Mapping[str, float | None] = {}
        if run.divergence is None:
            outcome = run.observer.outcome()
            values = outcome.metrics
            curves = {
                f"{n}/{axis}": part for n, xy in outcome.curves.items() for axis, part in zip("xy", xy, strict=True)
            }
            attempt.save_arrays("curves", curves)
            attempt.save_arrays("arrays", outcome.arrays)
        return [
            {
                "name": metric.name,
                "value": _finite(values.get(metric.name)),
                "version": metric.version,
                "unit": metric.unit,
                "direction": metric.direction,
                "target": metric.target,
                "primary": metric is self.task.metrics[0],
            }
            for metric in self.task.metrics
        ]

    def _spent(self) -> dict[str, float]:
        clock = self.loop.clock
        spent = {"sampling": clock.sampling, "observing": clock.observing}
        return {name: value + spent.get(name, 0.0) for name, value in self.seconds.items()}

    def _restore(self, checkpoints: Sequence[Arrays]) -> None:
        tensors = [
            {name: torch.from_numpy(array) for name, array in checkpoint.items() if name != "seconds"}
            for checkpoint in checkpoints
        ]
        self.loop.restore(tensors)
        self._first_position = self.loop.position
        before = np.max([checkpoint["seconds"] for checkpoint in checkpoints], axis=0)
        self.seconds = dict(zip(self.seconds, before.tolist(), strict=True))

    def _warn_of_instability(self) -> None:
        from harness.conformance.linear import stability_limit

        curvature, limit = self.task.curvature(), stability_limit(self.loop.sampler)
        largest = float(self.loop.trajectory.step_size.max())
        if not curvature or not limit or largest * curvature < limit:
            return
        spec = self.specs[0]
        text = (
            f"{spec.method} on {spec.task.name}: step size {largest:.4g} is past the stability limit "
            f"{limit / curvature:.4g} (h * curvature < {limit:.4g}, curvature {curvature:.4g}); "
            "expect over-dispersion or divergence"
        )
        for attempt in self.attempts:
            attempt.event("warning", text=text)
        self.send("warning", {"text": text})


def build(specs: Sequence[RunSpec], job: Job, trajectory_steps: int | None = None) -> Loop:
    """The loop of runs that differ only in their seed."""
    spec = specs[0]
    task = instance(spec.task.target, spec.task.params)
    sampler = instance(spec.sampler.target, spec.sampler.params)
    schedule = instance(spec.schedule.target, spec.schedule.params)
    steps = trajectory_steps or spec.steps
    trajectory = schedule.trajectory(steps, task.steps_per_epoch())
    trajectory = trajectory.with_burn_in(0 if trajectory_steps else spec.burn_in, spec.thin)
    sampler.check_steps(trajectory.step_size.tolist(), trajectory.temperature.tolist())
    bytes_kept = int(trajectory.keep.sum()) * spec.chains * task.dim() * 4
    stride = -(-bytes_kept // DRAW_BYTES) or 1
    streams = [Streams(s.seed, chain, (spec.task.name,)) for s in specs for chain in range(spec.chains)]
    return Loop(task, sampler, trajectory, streams, spec.chains, device=job.device, draw_stride=stride)


def _open(ledger: Ledger, spec: RunSpec, here: Mapping[str, Any]) -> tuple[Attempt, Arrays | None]:
    """The attempt to go on with and its checkpoint, where code and versions are the same; else a new attempt."""
    standing = ledger.standing(spec.key)
    unfinished = standing.attempt if standing.attempt is not None and not standing.failed else None
    if unfinished is not None:
        before = read_json(unfinished.path / "environment.json") or {}
        checkpoint = unfinished.load_checkpoint()
        if before.get("id") == here["id"] and checkpoint is not None and _draws_fit(unfinished, checkpoint, spec):
            return unfinished, checkpoint
    return Attempt.create(ledger.runs, spec, here), None


def _draws_fit(attempt: Attempt, checkpoint: Arrays, spec: RunSpec) -> bool:
    """Cut the draws on disk back to the checkpoint; False where they are fewer than it counts."""
    stored = int(checkpoint["counters"][4])
    dim = checkpoint["theta"].shape[1]
    return attempt.truncate_draws(stored * spec.chains * dim)


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None
