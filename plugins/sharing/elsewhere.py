"""Draws and predictions made by other software, measured by the task in a worker and written as an attempt."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from harness import DataError, RunError, Sampler, Trajectory, UsageError, param
from harness.contracts.predictions import averaged_scores, reference_of
from harness.results import Attempt, AttemptResult, Ledger, RunSpec, Send, Status, checksum, commit, environment, now
from harness.runs import Job, curve_arrays, metric_values, prepare, truths, writing
from harness.tasks import Classification, Cost, DataTask, NetworkTask, Outcome, Streams, Task
from plugins.sharing.submission import Declared, Submission, read
from plugins.upkeep.rescoring import observe


@dataclass(frozen=True, kw_only=True)
class Elsewhere(Sampler):
    """A placeholder for a method that ran in other software. It makes no step here, so its runs cannot be repeated."""

    declared: str = param("", "", "software and settings, as they were declared")

    def init(self, *_: Any) -> NoReturn:
        """Raise `RunError`."""
        raise RunError("these draws were made by other software: the run cannot be repeated here")

    def step(self, *_: Any) -> NoReturn:
        """Raise `RunError`."""
        self.init()


def measure(job: Job, declared: Declared, _send: Send) -> str:
    """Measure a file as the run of a job and write the attempt; return its name."""
    prepare(job)
    (spec,) = job.specs
    began = time.perf_counter()
    submission, ledger, task = read(declared.path), Ledger(job.results), truths.task_with_truth(job.results, spec)
    outcome, cost = _outcome(task, spec, submission, declared)
    draws = submission.draws
    with ledger.hold(spec.key, commit.PATIENCE), writing():
        standing, about = ledger.standing(spec.key), {"sha256": checksum(declared.path), "warmup": declared.warmup}
        if standing.cached and standing.attempt is not None:
            _check_same(standing.attempt, spec, declared, about)
            return standing.attempt.id
        attempt = Attempt.create(ledger.runs, spec, environment.collect("cpu", job.distributions))
        attempt.event("scored", **about)
        steps = 0 if draws is None else len(draws)
        if draws is not None:
            parts = [draws] if submission.log_weights is None else [draws, submission.log_weights[:, :, None]]
            attempt.append_draws(np.concatenate(parts, axis=2).astype(np.float32))
            weighted = submission.log_weights is not None
            attempt.seal_draws(spec.chains, draws.shape[2], np.arange(1, steps + 1), weighted=weighted)
        attempt.save_arrays("curves", curve_arrays(outcome))
        attempt.save_arrays("arrays", outcome.arrays)
        attempt = commit.conclude(
            attempt,
            AttemptResult(
                run_key=spec.key, status=Status.DONE, started=attempt.started(), finished=now(),
                seconds_observing=time.perf_counter() - began, block_runs=1, steps_done=spec.steps,
                passes_per_step=cost.per_step, passes=declared.passes, draws_kept=steps, draws_stored=steps,
                draws_stride=int(steps > 0), truth=truths.checksum(task) or None,
                metrics=metric_values(task, outcome.metrics),
            ),
        )  # fmt: skip
    return attempt.id


def _check_same(attempt: Attempt, spec: RunSpec, declared: Declared, about: dict[str, Any]) -> None:
    """Raise `UsageError` unless an attempt was made of this file, with the same cost."""
    scored = next((event for event in attempt.events() if event["event"] == "scored"), {})
    passes = (attempt.result() or {}).get("passes")
    if {name: scored.get(name) for name in about} != about or passes != declared.passes:
        raise UsageError(
            f"seed {spec.seed} of {spec.method} on {spec.task.name} is there already, from another file or at "
            "another cost; another --seed, --name or --about"
        )


def _outcome(task: Task, spec: RunSpec, submission: Submission, declared: Declared) -> tuple[Outcome, Cost]:
    name = spec.task.name
    streams = [Streams(spec.seed, 0, (name,))]
    if submission.probabilities is not None:
        problem = task.build(streams, "cpu")
        if not _has_classes(task, problem):
            raise UsageError(f"{name} predicts no classes: send draws")
        return _scores(submission, problem, task, name, declared.path), Cost(0.0, declared.passes)
    assert submission.draws is not None
    steps, chains, dim = submission.draws.shape
    problem = task.build([Streams(spec.seed, chain, (name,)) for chain in range(chains)], "cpu")
    if dim != problem.dim:
        raise DataError(f"{declared.path}: the draws have {dim} coordinates, {name} has {problem.dim}")
    cost = Cost(declared.warmup, (declared.passes - declared.warmup) / steps)
    on, off = np.ones(steps, dtype=bool), np.zeros(steps, dtype=bool)
    trajectory = Trajectory(np.ones(steps), np.ones(steps), on, on, np.zeros(steps, dtype=np.int64), off)
    observer = problem.observer(slice(0, chains), trajectory, cost)
    logs = np.zeros((steps, chains)) if submission.log_weights is None else submission.log_weights
    weights = np.exp(logs - logs.max())
    return observe(observer, task, submission.draws, weights, np.arange(1, steps + 1)), cost


def _has_classes(task: Task, problem: Any) -> bool:
    if isinstance(task, NetworkTask) and type(task.likelihood) is not Classification:
        return False
    if isinstance(task, DataTask):
        return task.tested and "label" in problem.part("test")
    return hasattr(problem, "labels")


def _scores(submission: Submission, problem: Any, task: Task, name: str, path: Path) -> Outcome:
    """Return the metrics of averaged predictions that a task reports."""
    probabilities, reference = submission.probabilities, reference_of(problem)
    assert probabilities is not None
    classes = problem.labels["test"].cpu().numpy()
    (rows, width), count = probabilities.shape, 1 + max(int(labels.max()) for labels in problem.labels.values())
    if rows != len(classes) or width < count or (width > count and "train" in problem.labels):
        shape = f"{rows} rows of {width} classes"
        raise DataError(f"{path}: {shape} are predicted; {name} has {len(classes)} test rows of {count} classes")
    if submission.classes is not None and (other := submission.classes != classes).any():
        row = int(other.argmax())
        raise DataError(
            f"{path}: test row {row} has the class {submission.classes[row]:g} there and {classes[row]} in {name}; "
            "the rows are in another order, or of other data: give their numbers, from 0, in the array rows"
        )
    if reference is not None and submission.classes is None and not submission.ordered:
        raise DataError(
            f"{path} does not say which test row each prediction is of, and predictions for {name} come in several "
            "orders; add the array rows, their numbers from 0 in the task's order, or classes, the true classes"
        )
    values = averaged_scores(probabilities, classes, reference)
    arrays = {"probabilities": probabilities.astype(np.float32), "classes": classes}
    return Outcome({metric.name: values.get(metric.name) for metric in task.metrics}, arrays=arrays)
