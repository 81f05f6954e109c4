"""Methods across tasks: one field per task and one row per method, as arrays. All aggregate reports use these rules:

- For a task, the field (protocol, chains, budget, version) on which most methods have a value; of several, the one with
  the largest budget. Fields are never pooled.
- For a method with several rows in it, the row with tuned settings; otherwise one with settings that nobody changed;
  otherwise the latest.
- A row of five seeds counts if the leaderboard ranks it, or if it diverged: then its value is infinite.
- Only methods with a value on all tasks are compared. The tasks are those that were requested, or otherwise those on
  which at least half as many methods have a value as on the task with the most.
- In a performance profile, a task that a method cannot run on (it needs two dimensions, or what the task does not
  provide) counts as unsolved, if the method has a value on at least half of the tasks.
- Figures of mean ranks and their critical difference need five tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness import BenchError, UsageError, diagnostics
from harness.reports import Estimate, FieldScore, Group, Request, score_fields, settings_from, typical
from harness.tasks import Streams
from reports.figures.parts import Array, task_of
from reports.tables.leaderboard import ranking_metric
from reports.tables.wide import JOINT

if TYPE_CHECKING:
    from harness.reports import Store

FEWEST = 5
"""Least number of seeds of a row that counts: RULES.md, 5."""
FEWEST_TASKS = 5
"""Least number of tasks of a figure of mean ranks."""
POINTS, ROUNDING = 100, 0.01
"""At so many points the energies of two tasks are compared, and by this share of their range copies may differ."""
MOST_WORK = 10**8
"""Of the dimension times the terms: tasks beyond it are not compared."""


@dataclass(frozen=True, eq=False)
class TaskField:
    """The field of a task, and its row for each method by a metric.

    `missing` says why the other methods have no value; `several` names the methods with more than one row. Baselines
    are apart, since they have no rank.
    """

    task: str
    score: FieldScore
    metric: str
    rows: dict[str, Group]
    missing: dict[str, str]
    several: list[str]
    baselines: dict[str, Group]

    @property
    def groups(self) -> dict[str, Group]:
        """The row of each method, baselines included."""
        return {**self.baselines, **self.rows}

    @property
    def protocol(self) -> str:
        """The protocol of its runs."""
        return self.score.groups[0].protocol

    @property
    def passes(self) -> float:
        """The data passes of a typical row."""
        return typical([typical(group.done.numbers.passes) for group in self.rows.values()]) or 0.0


@dataclass(frozen=True, eq=False)
class Across:
    """Methods (M) with values on all of some tasks (T).

    values      (M, T), lower is better
    replicates  (M, T, B), by bootstrap over seeds, paired
    seeds       the lowest number of seeds of a row
    left_out    methods and tasks, each with the reason
    missing     the methods among them
    unable      "METHOD: on TASK (why)" of the methods that cannot run on a task, where their value is infinite
    """

    metric: str
    tasks: list[TaskField]
    methods: list[str]
    values: Array
    replicates: Array
    seeds: int
    left_out: list[str]
    missing: list[str]
    unable: list[str]

    @property
    def words(self) -> str:
        """The metric, in words."""
        return self.metric.replace("_", " ")

    @property
    def task_names(self) -> list[str]:
        """The names of the tasks."""
        return [field.task for field in self.tasks]

    @property
    def names(self) -> dict[str, str]:
        """The methods' names for readers, by method: optimisers are marked."""
        optimisers = {m for task in self.tasks for m, group in task.rows.items() if group.optimiser}
        return {m: f"{m} (optimiser)" if m in optimisers else m for m in self.methods}

    @property
    def run_keys(self) -> dict[str, list[str]]:
        """The run keys by method."""
        rows = {m: [task.rows[m] for task in self.tasks if m in task.rows] for m in self.methods}
        return {m: [run.key for row in rows[m] for run in row.runs] for m in self.methods}

    @property
    def pool(self) -> str:
        """What is aggregated, for titles."""
        return pool(len(self.methods), len(self.tasks), self.seeds)

    @property
    def listed(self) -> str:
        """The tasks with their fields, for captions."""
        return "; ".join(task.score.title for task in self.tasks)

    @property
    def notes(self) -> list[str]:
        """The notes of a table on the choice of tasks, rows and methods."""
        several = {name for task in self.tasks for name in task.several if name in self.methods}
        unable = [f"cannot run, counts as unsolved: {reason}" for reason in self.unable]
        rule = "of several rows on a task the tuned one, else one that nobody changed, else the latest"
        chosen = f"{rule} stands for the method: {', '.join(sorted(several))}"
        left_out = [f"left out: {reason}" for reason in self.left_out]
        return [f"tasks: {self.listed}", *([chosen] if several else []), *unable, *left_out]


def pool(methods: int, tasks: int, seeds: int) -> str:
    """Return what is aggregated, for titles: "12 methods, 1 task, at least 5 seeds"."""
    return f"{methods} methods, {tasks} task{'s' * (tasks != 1)}, at least {seeds} seeds"


def across(store: Store, request: Request, *, unable: bool = False) -> Across | None:
    """Return the comparison for a request, by its metric or the joint error; None if no two methods share a task.

    With `unable` it includes the methods that cannot run on some of the tasks, with infinite values there.
    """
    metric = request.metric or JOINT
    tasks, fields, few = shared_tasks(store, request, metric)
    names = sorted({method for field in fields for method in (*field.rows, *field.missing)})
    lacks = {name: [field for field in tasks if name not in field.rows] for name in names}
    cannot = {(name, field.task): _cannot(name, field, fields, request) for name in names for field in lacks[name]}
    unfit = {
        name: [f"on {field.task} ({cannot[name, field.task]})" for field in lacks[name]]
        for name in names
        if unable and 2 * len(lacks[name]) <= len(tasks) and all(cannot[name, field.task] for field in lacks[name])
    }
    methods = [name for name in names if tasks and (not lacks[name] or name in unfit)]
    if len(methods) < 2:
        return None
    missing = [name for name in names if name not in methods]
    left_out = [
        f"{name}: no value on "
        + ", ".join(f"{f.task} ({cannot[name, f.task] or f.missing.get(name, 'no runs')})" for f in lacks[name])
        for name in missing
    ]
    values = np.array([[loss(field, field.rows.get(name)) for field in tasks] for name in methods])
    replicates = np.array([[_replicates(field, field.rows.get(name)) for field in tasks] for name in methods])
    seeds = min(len(field.rows[name].runs) for field in tasks for name in methods if name in field.rows)
    said = [f"{name}: {', '.join(reasons)}" for name, reasons in unfit.items() if reasons]
    return Across(metric, tasks, methods, values, replicates, seeds, [*left_out, *few], missing, said)


def _cannot(name: str, field: TaskField, fields: Sequence[TaskField], request: Request) -> str:
    """Return why a method without runs on a task cannot run on it; "" if it can, or if its plugins are absent."""
    rows = [other.rows[name] for other in fields if name in other.rows]
    if not rows or name in field.missing or request.registry is None:
        return ""
    try:
        sampler = request.plugin("samplers", str(rows[0].settings["sampler"]))
        task = task_of(next(iter(field.rows.values())), request)
        if needed := sorted(sampler.needs - task.provides):
            return f"needs {', '.join(needed)}"
        return f"needs {sampler.least_dimension} dimensions" if task.dim() < sampler.least_dimension else ""
    except (BenchError, AttributeError):  # not installed, without its data, or a baseline
        return ""


def shared_tasks(store: Store, request: Request, metric: str) -> tuple[list[TaskField], list[TaskField], list[str]]:
    """Return the fields of tasks on which enough methods have a value, of all tasks, and why some are left out."""
    fields, copies = distinct(task_fields(store, request, metric), request)
    most = max((len(field.rows) for field in fields), default=0)
    tasks = [field for field in fields if request.tasks or 2 * len(field.rows) >= max(most, 4)]
    few = [f"task {f.task}: {len(f.rows)} of {most} methods have a value" for f in fields if f not in tasks]
    return tasks, fields, few + [f"task {copy}: it has the energies of {task}" for copy, task in copies.items()]


def task_fields(store: Store, request: Request, metric: str = "") -> list[TaskField]:
    """Return the field of each task on which at least two methods have a value of the metric.

    If no metric is given, it is the one that ranks the field. Raise `UsageError` if the request's metric is unknown.
    """
    return list(_largest(store, request, metric, lambda field: field.task).values())


def protocol_fields(store: Store, request: Request) -> dict[str, TaskField]:
    """Return, by "TASK@PROTOCOL", the field of each protocol on which at least two methods have a value."""
    return _largest(store, request, "", lambda field: f"{field.task}@{field.protocol}")


def distinct(fields: Sequence[TaskField], request: Request) -> tuple[list[TaskField], dict[str, str]]:
    """Return the fields of different tasks, in order, and of which task each of the others is a copy.

    Two tasks are copies if their energies at `POINTS` standard normal points from one generator differ by a constant,
    to 1 % of their range. Of copies the one with the most methods stays. A task whose plugin or data are absent, or
    whose energies would take too long (`MOST_WORK`), is not compared.
    """
    largest = sorted(fields, key=lambda field: (-len(field.rows), field.task))
    sizes = [_size(field, request) for field in largest]
    energies: dict[str, Array] = {}
    copies: dict[str, str] = {}
    for field, size in zip(largest, sizes, strict=True):
        if size is None or sizes.count(size) < 2 or (energy := _energies(field, request)) is None:
            continue
        same = [name for name, other in energies.items() if energy.shape == other.shape and _equal(energy, other)]
        if same:
            copies[field.task] = same[0]
        else:
            energies[field.task] = energy
    return [field for field in fields if field.task not in copies], copies


def _size(field: TaskField, request: Request) -> int | None:
    """Return the task's dimension; None if it cannot be loaded or its energies take too long."""
    try:
        task = task_of(next(iter(field.rows.values())), request)
        dim = int(task.dim())
        return dim if dim * int(task.terms()) <= MOST_WORK else None
    except (BenchError, AttributeError):
        return None


def _energies(field: TaskField, request: Request) -> Array | None:
    group = next(iter(field.rows.values()))
    return request.once(("energies", group.key), lambda: _energies_of(group, request))


def _energies_of(group: Group, request: Request) -> Array | None:
    try:
        task = task_of(group, request)
        points = np.random.default_rng(0).standard_normal((POINTS, task.dim()))
        if task.dim() <= 2 and hasattr(task, "log_density"):  # without torch, which takes a second to import
            return np.asarray(-task.log_density(points), dtype=np.float64)
        problem = task.build([Streams(0, chain, ("copies",)) for chain in range(POINTS)], "cpu")
    except BenchError:
        return None
    import torch

    with torch.no_grad():
        energy = problem.energy(torch.from_numpy(points).to(problem.initial().dtype), None)
    return np.asarray(energy.double().numpy(), dtype=np.float64)


def _equal(a: Array, b: Array) -> bool:
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)) or not finite.any():
        return False
    x, y = a[finite] - a[finite][0], b[finite] - b[finite][0]
    return bool(np.abs(x - y).max() <= ROUNDING * np.ptp(a[finite]))


def _largest(store: Store, request: Request, metric: str, key: Callable[[TaskField], str]) -> dict[str, TaskField]:
    fields: dict[str, TaskField] = {}
    known: set[str] = set()
    scores = score_fields(store, request)
    for score in scores:
        known |= set(score.metrics)
        by = metric or ranking_metric(score)
        if by not in score.metrics:
            continue
        field = _field(score, by)
        best = fields.get(key(field))
        if best is None or (len(field.rows), field.passes) > (len(best.rows), best.passes):
            fields[key(field)] = field
    if scores and request.metric and metric not in known:
        raise UsageError(f"no field has the metric {metric!r}; known: {', '.join(sorted(known))}")
    return {name: field for name, field in fields.items() if len(field.rows) >= 2}


def of_study(field: TaskField, study: str) -> TaskField:
    """Return a field with the rows alone whose settings are of a study."""
    return _field(field.score, field.metric, study)


def _field(score: FieldScore, metric: str, study: str = "") -> TaskField:
    """Return a field with a row for each method; with `study`, of those whose settings are of it."""
    of = [group for group in score.groups if not study or (group.tuning and group.tuning.study == study)]
    rows: dict[str, Group] = {}
    missing: dict[str, str] = {}
    several: list[str] = []
    baselines: dict[str, Group] = {}
    for group in sorted(of, key=_preference):
        standing = score.standing(group, metric)
        diverged = bool(group.diverged) and len(group.runs) >= FEWEST and not group.baseline
        if standing.rank is not None or diverged:
            several += [group.method] if group.method in rows else []
            rows[group.method] = group
        else:
            missing[group.method] = standing.status.partition(";")[0]
            if group.baseline and not group.diverged:
                baselines[group.method] = group
    missing = {method: why for method, why in missing.items() if method not in rows}
    return TaskField(score.groups[0].task, score, metric, rows, missing, sorted(set(several)), baselines)


def _preference(group: Group) -> tuple[int, str]:
    """Return a sort key for the rows of a method: the last one represents it."""
    kind = (
        3 + group.tuning_version if settings_from(group, "tuned") else 0 if settings_from(group, "user", "swept") else 2
    )
    return kind, max(run.attempt for run in group.runs)


def loss(field: TaskField, group: Group | None) -> float:
    """Return a row's value so that lower is better; infinite if it has none, or if a seed diverged."""
    estimate = None if group is None or group.diverged else field.score.estimate(group, field.metric)
    return np.inf if estimate is None or estimate.mean is None else float(_as_losses(np.array(estimate.mean), estimate))


def _as_losses(values: Array, estimate: Estimate) -> Array:
    distances = values if estimate.target is None else np.abs(values - estimate.target)
    return np.where(np.isinf(distances), np.inf, -distances if estimate.direction == "max" else distances)


def _replicates(field: TaskField, group: Group | None) -> Array:
    """Return replicates (B,), on the same resampled seeds for all methods with the same number of seeds."""
    estimate = None if group is None or group.diverged else field.score.estimate(group, field.metric)
    if estimate is not None and estimate.replicates is not None:
        return _as_losses(estimate.replicates, estimate)
    if estimate is None or len(estimate.by_seed) < 2:
        return np.full(len(diagnostics.seed_counts(2)), loss(field, group))
    by_seed = _as_losses(np.array([estimate.by_seed[seed] for seed in sorted(estimate.by_seed)]), estimate)
    return np.asarray(diagnostics.seed_counts(len(by_seed)) @ by_seed / len(by_seed))
