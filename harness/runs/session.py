"""A block of runs in a worker: its loop, the attempts that it writes, and how it begins, pauses and ends."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness.contracts.observers import finite_or_none
from harness.contracts.task import Metric, Outcome, Task
from harness.engine.loop import Loop
from harness.engine.run_state import RunState
from harness.results import environment
from harness.results.ledger.attempt import Attempt, now
from harness.results.ledger.commit import conclude, second
from harness.results.ledger.heartbeats import Send, ranges
from harness.results.ledger.ledger import Ledger
from harness.results.records import AttemptResult, Status, ValueRow
from harness.results.spec import RunSpec
from harness.runs import unchanged, undeclared
from harness.runs.failure import fail_all, writing
from harness.runs.job import Job
from harness.runs.limit import OutOfTimeError, interrupted_after
from harness.runs.resume import TRUTH, Arrays, build, check_code, open_attempt
from harness.runs.source import equal_code
from harness.runs.truths import checksum
from harness.system.device_errors import lost_device, unusable
from harness.system.locks import Lock, kernel

UNDECLARED = (
    "which is not declared: a change of it would change no run key; make it a setting, param(kind='file'), or list it "
    "in `datasets` or `__files__`"
)
MUCH = 1.0
"""GiB of rows from which a warning says how many there are."""
WRITERS = 4
"""Number of runs whose files are written in parallel: a disk confirms several writes in the time of one."""


class Session:
    """Runs of one block that advance together from the same position. It writes only through their attempts.

    `unusable` says that the error of a run left the GPU unusable to this process, so that no other run is to be tried.
    """

    def __init__(
        self,
        loop: Loop,
        specs: Sequence[RunSpec],
        attempts: Sequence[Attempt],
        checkpoints: Sequence[Arrays],
        job: Job,
        send: Send,
    ) -> None:
        self.loop, self.specs, self.attempts, self.send = loop, list(specs), list(attempts), send
        self.locks: Sequence[tuple[Lock, Lock]] = ()
        self.unusable = False
        self.measuring: unchanged.Unchanged | None = None
        self.seconds = dict.fromkeys(("setup", "sampling", "observing", "checkpoint"), 0.0)
        self._began_at = loop.done
        if checkpoints:
            self._restore(checkpoints)
        self._reported = {attempt.id for attempt, run in zip(self.attempts, loop.runs, strict=True) if run.divergence}
        where: dict[str, Any] = {"kernel": kernel(), "device": job.device, **({"job": job.name} if job.name else {})}
        if equal := equal_code(specs[0]):
            where["code"] = equal
        for attempt in self.attempts:
            with writing():
                attempt.event("resumed" if checkpoints else "started", position=self.loop.position, **where)
        self._data, self._why_plain, self._undeclared = tuple(job.data), job.why_plain, set[str]()
        self._warn_of_instability()
        self._warn_of_memory()
        self._warn_of_undeclared_files()

    @classmethod
    def open_all(cls, ledger: Ledger, specs: Sequence[RunSpec], job: Job, send: Send) -> Iterator[Session]:
        """Yield sessions that cover all specs: one for the new runs, and one for each position of their checkpoints."""
        began = time.perf_counter()
        measuring = unchanged.watch(specs, job.plugins)
        first: Loop | None = None
        try:
            with interrupted_after(job.timeout):
                first = build(specs, job)  # what cannot work is refused before anything is written
        except MemoryError:
            build(specs[:1], job)  # otherwise fewer of them may fit
        building = time.perf_counter() - began
        check_code(specs)
        here = environment.collect(job.device, job.distributions)
        groups: dict[tuple[bool, int], list[tuple[RunSpec, Attempt, Arrays | None]]] = {}
        with writing(), ThreadPoolExecutor(WRITERS) as pool:
            opened = list(pool.map(lambda spec: open_attempt(ledger, spec, here), specs))
        told: dict[str, list[int]] = {}
        for spec, (attempt, checkpoint, text) in zip(specs, opened, strict=True):
            told.setdefault(text, []).append(spec.seed)
            position = int(checkpoint["counters"][0]) if checkpoint else 0
            groups.setdefault((checkpoint is not None, position), []).append((spec, attempt, checkpoint))
        for text, seeds in told.items():
            if text:
                who = f"{specs[0].method} on {specs[0].task.name}, seed{'s' * (len(seeds) > 1)} {ranges(seeds)}"
                send("warning", {"text": f"{who}: {text}"})
        if len(groups) > 1:
            first, building = None, 0.0
        for _, members in sorted(groups.items()):
            some, attempts, checkpoints = zip(*members, strict=True)
            began = time.perf_counter()
            try:
                loop = first or build(some, job)
            except MemoryError as error:
                fail_all(attempts, some, error, traceback.format_exc(), send)
                continue
            session = cls(loop, some, attempts, [c for c in checkpoints if c is not None], job, send)
            session.measuring = measuring
            session.seconds["setup"] += time.perf_counter() - began + building
            yield session

    @property
    def finished(self) -> bool:
        """Whether the loop has done all its steps."""
        return self.loop.finished

    def advance(self) -> None:
        """Do one block of steps and write its draws to disk."""
        self.loop.advance_block()
        for run, attempt, spec in zip(self.loop.runs, self.attempts, self.specs, strict=True):
            draws = run.fetch()
            if draws is not None:
                with writing():
                    attempt.append_draws(draws)
            if run.divergence and attempt.id not in self._reported:
                self._reported.add(attempt.id)
                where = {"step": run.divergence.step, "chain": run.divergence.chain, "seed": spec.seed}
                with writing():
                    attempt.event(Status.DIVERGED, **where)
                self.send(Status.DIVERGED, {"key": spec.key, "method": spec.method, "task": spec.task.name, **where})

    def progress(self) -> dict[str, Any]:
        """Return how far the block is, for the launcher's progress bar."""
        position = self.loop.position
        seconds = max(self.loop.clock.sampling + self.loop.clock.observing, 1e-9)
        path = self.loop.trajectory
        return {
            "keys": [spec.key for spec in self.specs],
            "position": self.loop.done,
            "steps": self.loop.steps,
            "rate": (self.loop.done - self._began_at) / seconds,
            "seconds": seconds,
            "step_size": float(path.step_size[min(max(position, 0), len(path) - 1)]),
        }

    def check_folders(self) -> None:
        """Raise `LostError` if the folder of a run is no longer the one that the worker locked.

        Nothing may be written then.
        """
        for _, folder in self.locks:
            folder.check()

    def check_unchanged(self) -> None:
        """Raise `PluginError` if a plugin changed the code that measures."""
        if self.measuring is not None:
            self.measuring.check()

    def lost_file(self) -> Path | None:
        """Return a lock file that was deleted or replaced since the worker locked it, or None."""
        return next((file.path for file, _ in self.locks if file.lost()), None)

    def checkpoint(self) -> None:
        """Write a checkpoint of every run, with the run's share of the time spent."""
        self.check_folders()
        began = time.perf_counter()
        share = np.array(list(self._share().values()))
        stored = checksum(self.loop.task)
        truth = {TRUTH: np.frombuffer(stored.encode(), dtype=np.uint8)} if stored else {}
        with writing():
            for run, attempt in zip(self.loop.runs, self.attempts, strict=True):
                arrays = {name: tensor.numpy() for name, tensor in self.loop.checkpoint(run).items()}
                attempt.save_checkpoint({**arrays, **truth, "seconds": share})
                attempt.event("checkpoint", position=self.loop.position)
        self.seconds["checkpoint"] += time.perf_counter() - began
        self.send("checkpoint", {"keys": [spec.key for spec in self.specs]})

    def suspend(self, reason: str) -> None:
        """Stop here: write a checkpoint if any step was done, and an event. The same command resumes from there."""
        self.check_folders()
        if self.loop.done:
            self.checkpoint()
        for attempt, spec in zip(self.attempts, self.specs, strict=True):
            with writing():
                attempt.event(reason, position=self.loop.position)
            self.send("suspended", {"key": spec.key, "status": reason})

    def note(self, event: str) -> None:
        """Record why the runs stopped here, if the disk has space for it. They resume from their checkpoints."""
        for attempt, spec in zip(self.attempts, self.specs, strict=True):
            with suppress(OSError):
                attempt.event(event, position=self.loop.position)
            self.send("suspended", {"key": spec.key, "status": event})

    @property
    def ended_a_cycle(self) -> bool:
        """Whether the last step was the last of its cycle."""
        cycle, k = self.loop.trajectory.cycle, self.loop.position
        return bool(0 < k < len(cycle) and cycle[k] != cycle[k - 1])

    def conclude(self) -> None:
        """Write the result of each run separately, so that an observer that fails does not affect the other runs."""
        self.check_folders()
        written = []
        with ThreadPoolExecutor(WRITERS) as pool:
            for run, attempt, spec in zip(self.loop.runs, self.attempts, self.specs, strict=True):
                try:
                    outcome = run.observer.outcome() if run.divergence is None else None
                    self.check_unchanged()
                except BaseException as error:
                    if lost_device(error):
                        raise
                    self._fail([attempt], [spec], error, traceback.format_exc())
                    if self.unusable:
                        break
                else:
                    self._warn_of_undeclared_files()
                    written.append(pool.submit(self._conclude, run, attempt, spec, outcome))
        for future in written:
            future.result()

    def fail(self, error: BaseException, trace: str) -> None:
        """Conclude the runs with a status that says why there is no result. Runs that diverged before are diverged."""
        self.check_folders()
        for run, attempt, spec in zip(self.loop.runs, self.attempts, self.specs, strict=True):
            if run.divergence and attempt.result() is None:
                self._conclude(run, attempt, spec, None)
        self._fail(self.attempts, self.specs, error, trace)

    def _fail(self, attempts: Sequence[Attempt], specs: Sequence[RunSpec], error: BaseException, trace: str) -> None:
        cost = {**self._share(), "passes": self.loop.spent(self.loop.position)}
        fail_all(attempts, specs, error, trace, self.send, self._steps(), cost)
        self.unusable = unusable(error)

    def _steps(self) -> int:
        """Return the number of finished steps, without those of a warm start."""
        return max(0, self.loop.position)

    def _conclude(self, run: RunState, attempt: Attempt, spec: RunSpec, outcome: Outcome | None) -> None:
        lost, cost = run.divergence, self.loop.cost
        reason = f"chain {lost.chain} of seed {spec.seed} became non-finite at step {lost.step}" if lost else None
        reason = f"{reason} of the warm start" if lost and lost.seen_at <= 0 else reason
        steps = lost.seen_at if lost else self.loop.position
        compiled, graphs = map(sum, zip(*(stage.stepper.code_counts() for stage in self.loop.stages), strict=True))
        stored_at = np.flatnonzero(self.loop.trajectory.keep)[:: run.stride or 1].repeat(run.particles) + 1
        with writing():
            stored = attempt.seal_draws(spec.chains, self.loop.problem.dim, stored_at, weighted=run.weighted)
            if outcome is not None:
                attempt.save_arrays("curves", curve_arrays(outcome))
                attempt.save_arrays("arrays", outcome.arrays)
            result = AttemptResult(
                run_key=spec.key,
                status=Status.DIVERGED if lost else Status.DONE,
                reason=reason,
                executed=self.loop.executed,
                compiled=compiled,
                graphs=graphs,
                why_plain=self._why_plain,
                step=lost.step if lost else None,
                chain=lost.chain if lost else None,
                started=attempt.started(),
                finished=now(),
                **self._share(),
                block_runs=len(self.specs),
                steps_done=max(0, steps),
                passes_per_step=cost.per_step,
                full_gradients=self.loop.stages[-1].full_gradients,
                passes=self.loop.spent(steps),
                draws_kept=run.kept,
                draws_stored=stored,
                draws_stride=run.stride,
                truth=checksum(self.loop.task) or None,
                metrics=metric_values(self.loop.task, outcome.metrics if outcome is not None else {}),
            )
            counting = conclude(attempt, result)
        if counting is not attempt:
            self.send("warning", {"text": f"{spec.method} on {spec.task.name}, seed {spec.seed}: {second(counting)}"})
        self.send("finished", {"key": spec.key, "status": result.status, "reason": reason or ""})

    def check_time(self, limit: float | None) -> None:
        """Raise `OutOfTimeError` if the block has worked for over `limit` seconds, before interruptions and after."""
        spent = sum(self._spent().values())
        if limit is not None and spent > limit:
            if self.loop.done > self._began_at:
                self.checkpoint()  # to resume from with more time
            raise OutOfTimeError(
                f"stopped after {spent:.0f} s of work at step {self._steps()} of {len(self.loop.trajectory)}: "
                f"--timeout was {limit:g} s"
            )

    def _spent(self) -> dict[str, float]:
        clock = self.loop.clock
        spent = {"sampling": clock.sampling, "observing": clock.observing}
        return {name: value + spent.get(name, 0.0) for name, value in self.seconds.items()}

    def _share(self) -> dict[str, Any]:
        """Return one run's share of the block's working time, under the names that a result uses for it."""
        return {f"seconds_{name}": value / len(self.specs) for name, value in self._spent().items()}

    def _restore(self, checkpoints: Sequence[Arrays]) -> None:
        tensors = [
            {name: torch.from_numpy(array) for name, array in checkpoint.items() if name != "seconds"}
            for checkpoint in checkpoints
        ]
        self.loop.restore(tensors)
        self._began_at = self.loop.done
        before = np.sum([checkpoint["seconds"] for checkpoint in checkpoints], axis=0)
        self.seconds = dict(zip(self.seconds, before.tolist(), strict=True))

    def _warn_of_instability(self) -> None:
        from harness.engine.linear import working_limit

        sampler = self.loop.sampler
        curvature, limit = 1.0 if sampler.step_unit == 0 else self.loop.task.curvature(), working_limit(sampler)
        largest = float(self.loop.trajectory.step_size.max())
        if not curvature or not limit or largest * curvature < limit:
            return
        spec = self.specs[0]
        text = (
            f"{spec.method} on {spec.task.name}: step size {largest:.4g} is past the stability limit "
            f"{limit / curvature:.4g} (h * curvature < {limit:.4g}, curvature {curvature:.4g}); "
            "expect over-dispersion or divergence"
        )
        self._warn(text)

    def _warn_of_memory(self) -> None:
        gib, task = self.loop.problem.held_bytes / 2**30, self.specs[0].task.name
        if gib >= MUCH:
            self._warn(
                f"{task} holds {gib:.3g} GiB of training rows in memory, beside its test rows; a memory map is not "
                "copied on a CPU, and a task of tasks.streamed.StreamedTask reads its rows while they are used"
            )

    def _warn_of_undeclared_files(self) -> None:
        spec = self.specs[0]
        targets = [part.target for part in (spec.task, spec.sampler, spec.schedule)]
        read = undeclared.uncovered(targets, self._data, spec.files())
        fresh = [path for path in read if path not in self._undeclared]
        if fresh and not self._undeclared:
            self._record("it reads files that are not declared, so that its run key does not cover their content")
        self._undeclared.update(fresh)
        for path in fresh:  # the record has no paths
            self.send("warning", {"text": f"{spec.method} on {spec.task.name} reads {path}, {UNDECLARED}"})

    def _warn(self, text: str) -> None:
        self._record(text)
        self.send("warning", {"text": text})

    def _record(self, text: str) -> None:
        for attempt in self.attempts:
            with writing():
                attempt.event("warning", text=text)


def metric_values(task: Task, values: Mapping[str, float | None]) -> tuple[ValueRow, ...]:
    """Return the metrics of a task in its order. A value that is missing or not finite becomes None."""
    return tuple(
        ValueRow(
            **{f.name: getattr(metric, f.name) for f in fields(Metric)},  # the metric may be of a subclass
            value=finite_or_none(values.get(metric.name)),
            is_primary=metric is task.metrics[0],
        )
        for metric in task.metrics
    )


def curve_arrays(outcome: Outcome) -> dict[str, NDArray[np.float64]]:
    """Return the curves as arrays with the names NAME/x and NAME/y."""
    return {f"{name}/{axis}": part for name, xy in outcome.curves.items() for axis, part in zip("xy", xy, strict=True)}
