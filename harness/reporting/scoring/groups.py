"""Runs from the store in groups of replicates, which differ only in the seed.

A report may cover a hundred thousand runs, so their numbers are kept in columns, and a `Run` object is created only
when it is needed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from harness.results.laws import BOARD, NOT_RUN, Outcome, Verdict
from harness.results.records import FINAL, Level, Status, ValueRow
from harness.results.spec import ONE_SETTING, SWEPT, TUNED, USER, Tuning
from harness.results.timings import Timing

CHANGED = (USER, SWEPT)
"""The provenances of settings that differ from the published ones."""


class Ruleset(StrEnum):
    """Who chose the settings of a row: nobody (defaults, a rule from the task), a search, an author, or the command."""

    ONE, TUNED, AUTHOR, USER = "one setting", "tuned equally", "author's", "user's"


Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
"""A curve: x (n,) and y (C, n), or y (1, n) for a curve of the whole run."""


@dataclass(frozen=True)
class Readings:
    """One version of a metric, for the runs that have it: its description and its values by seed, NaN for none."""

    known: ValueRow
    seeds: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Run:
    """The run of one seed: the attempt that counts (done or diverged, else the latest that failed) and its metrics."""

    key: str
    attempt: str
    path: str
    seed: int
    status: str
    reason: str | None
    step: int | None
    chain: int | None
    passes: float | None
    draws_kept: int | None
    metrics: Mapping[str, ValueRow]


@dataclass(frozen=True)
class Numbers:
    """The numbers of runs in columns, which have the same order."""

    seed: Sequence[int]
    attempt: Sequence[str]
    status: Sequence[str]
    passes: Sequence[float | None]
    draws_kept: Sequence[int | None]


class Runs(Sequence[Run]):
    """Runs in the order of their seeds. Their `numbers` are loaded, and `make` creates the `Run` objects on demand."""

    def __init__(self, numbers: Numbers, make: Callable[[], Sequence[Run]]) -> None:
        self.numbers = numbers
        self._make = make

    def __len__(self) -> int:
        return len(self.numbers.seed)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs if len(self) else ())

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Run]: ...

    def __getitem__(self, index: int | slice) -> Run | Sequence[Run]:
        return self._runs[index]

    @functools.cached_property
    def _runs(self) -> Sequence[Run]:
        return self._make()

    def of(self, wanted: Callable[[str], bool]) -> Runs:
        """Return the runs whose status is wanted."""
        names = {status for status in set(self.numbers.status) if wanted(status)}
        if names == set(self.numbers.status):
            return self
        keep = [i for i, status in enumerate(self.numbers.status) if status in names] if names else []
        chosen = Numbers(*([column[i] for i in keep] for column in vars(self.numbers).values()))
        return Runs(chosen, lambda: [self._runs[i] for i in keep])


@dataclass(frozen=True)
class TaskCode:
    """A version of a task's code and data, if several were run. `text` is "task source 1a2b3c4d, current code"."""

    text: str
    current: bool


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ only in seed.

    settings   every resolved setting by its dotted name; sources and data by their hashes
    readings   the measured values by metric, in a list of versions, the newest first
    task_code  the version of the task's code and data, if runs of several versions exist
    given      what the task gave the sampler at no cost
    tuned      the study that settings come from, with its cost; "" for none
    full_gradients  whether every gradient of its steps is of the full U, without noise; None if it is not recorded
    tuning     the same as a record; None for none, and in records of earlier versions
    level      the level of verification of the least verified run
    caveats    what has to be known about its runs, by a name: "equal source", "late"
    laws       the outcome of the laws at its settings
    timing     what `bench time` measured; None if it did not
    baseline   whether the method is offered as a baseline, which is not a sampler of the posterior
    optimiser  whether it is an optimiser, which draws no noise
    schedule_in_name  whether the method's name implies its schedule, as csgld's does
    """

    key: str
    method: str
    task: str
    task_version: int
    protocol: str
    budget: str
    steps: int
    chains: int
    settings: Mapping[str, Any]
    provenance: Mapping[str, str]
    runs: Runs
    readings: Mapping[str, Sequence[Readings]]
    task_code: TaskCode | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    tuned: str = ""
    full_gradients: bool | None = None
    tuning: Tuning | None = None
    level: Level = Level.RUN_HERE
    caveats: Mapping[str, str] = field(default_factory=dict)
    laws: Outcome = NOT_RUN
    timing: Timing | None = None
    baseline: bool = False
    optimiser: bool = False
    schedule_in_name: bool = False

    @property
    def ruleset(self) -> Ruleset:
        """Who chose the row's settings."""
        kinds = set(self.provenance.values())
        if kinds & {USER, TUNED}:
            return Ruleset.USER if USER in kinds else Ruleset.TUNED
        return Ruleset.AUTHOR if kinds - {"default", "untuned", ONE_SETTING} else Ruleset.ONE

    @property
    def tuning_version(self) -> int:
        """The version of the rules by which the row was tuned; 0 if it was not."""
        return self.tuning.version if self.tuning else int(bool(self.tuned))

    @property
    def seconds(self) -> float | None:
        """The seconds of sampling of a run by the timing pass; a run's own clock is not compared."""
        return self.timing.seconds_a_step * self.steps if self.timing else None

    @property
    def verified(self) -> bool:
        """Whether the group may rank: its runs were made here, or scored here if other software made them."""
        return self.level.ranks(self.protocol)

    @property
    def unlawful(self) -> str:
        """Why the laws withhold a rank: one fails at the row's settings, or a board's owner has not run them."""
        if self.laws == BOARD:
            return f"laws {self.laws}"
        if self.laws.verdict != Verdict.FAILED:
            return ""
        return f"{'baseline' if self.laws.ignores_gradient else 'fails laws'}: {self.laws.why}"

    @functools.cached_property
    def done(self) -> Runs:
        """The runs that finished with finite draws."""
        return self.runs.of(lambda status: status == Status.DONE)

    @functools.cached_property
    def diverged(self) -> Runs:
        """The runs in which a chain became non-finite."""
        return self.runs.of(lambda status: status == Status.DIVERGED)

    @functools.cached_property
    def failed(self) -> Runs:
        """The runs that ended with an error of the code or the machine. They may be run again."""
        return self.runs.of(lambda status: status not in FINAL)

    def differs_in_code(self, other: Group) -> bool:
        """Return whether two groups are in different fields only because of the task's code or data."""
        a, b = self, other
        bare = [replace(g, settings={n: v for n, v in g.settings.items() if not n.startswith("task ")}) for g in (a, b)]
        return field_of(a) != field_of(b) and field_of(bare[0]) == field_of(bare[1])

    def metrics(self) -> dict[str, ValueRow]:
        """Return the description of each metric of the runs (unit, direction, newest version), primary ones first."""
        return dict(self._metrics)

    def measured(self, metric: str) -> bool:
        """Return whether any run has a value of the metric, because a run may also record that it has none."""
        return any(not np.isnan(version.values).all() for version in self.readings.get(metric, ()))

    @functools.cached_property
    def _metrics(self) -> dict[str, ValueRow]:
        described = {name: versions[0].known for name, versions in self.readings.items()}
        return dict(sorted(described.items(), key=lambda item: (not item[1].is_primary, item[0])))


FieldKey = tuple[str, int, str, int, str, str]
"""A field, whose groups a table compares: task, version, protocol, chains, budget, and, as JSON, the task's settings,
source and data, and whether theta is moved."""


def field_of(group: Group) -> FieldKey:
    """Return the key of the field that a group belongs to. Fields are never pooled."""
    task = {name: value for name, value in group.settings.items() if name.startswith(("task.", "task ", "run.moved"))}
    settings = json.dumps(task, sort_keys=True)
    return group.task, group.task_version, group.protocol, group.chains, group.budget, settings


def fields(groups: Iterable[Group]) -> list[list[Group]]:
    """Return the groups in a fixed order, with one list per field."""
    by_field: dict[FieldKey, list[Group]] = {}
    for group in groups:
        by_field.setdefault(field_of(group), []).append(group)
    return [sorted(by_field[key], key=lambda g: (g.method, g.key)) for key in sorted(by_field)]
