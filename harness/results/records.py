"""The records of a results folder and their tables. The meaning of each field is declared here, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from harness.contracts.task import Metric
from harness.results.spec import PARTS, Component, Execution, RunSpec
from harness.system.columns import SchemaColumn, columns, entry


class Status(StrEnum):
    """The status of a run or an attempt, in the order in which statuses are listed."""

    NEW = "new"
    DONE = "done"
    DIVERGED = "diverged"
    ERROR = "error"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    RUNNING = "running"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    DEVICE_LOST = "device_lost"
    DISK_FULL = "disk_full"
    ORPHANED = "orphaned"
    DAMAGED = "damaged"

    def __repr__(self) -> str:
        """Return the representation of the plain text, also within a tuple."""
        return repr(self.value)


FINAL = (Status.DONE, Status.DIVERGED)
"""Statuses of finished runs: they have results, and are not run again."""
RESUMABLE = (Status.OUT_OF_MEMORY, Status.TIMEOUT)
"""Statuses of runs that failed for lack of resources; --retry resumes from the last checkpoint, in a new attempt."""
FAILED = (Status.ERROR, *RESUMABLE)
PAUSED = (Status.CANCELLED, Status.PREEMPTED, Status.DEVICE_LOST, Status.DISK_FULL)
CONTINUABLE = (*PAUSED, Status.ORPHANED)


@dataclass(frozen=True)
class Meta:
    """Facts about the database itself."""

    key: str = entry("schema_version")
    value: str = entry("the value as text")


@dataclass(frozen=True)
class Environment:
    """One row per machine with its versions: the environment.json of attempts, without the code."""

    environment: str = entry("SHA-256 of the rest of environment.json, without `code`", at="")
    bench: str | None = entry("version of sgmcmc-bench")
    python: str | None = entry("version of Python")
    platform: str | None = entry("operating system, its version, and the processor's architecture")
    cpu: str | None = entry("model of the processor")
    cores: int | None = entry("processor cores that the process may use")
    gpu: str | None = entry("model of the accelerator that the run was on; NULL on a CPU")
    torch: str | None = entry("version of torch, with its build")
    device: str | None = entry("device that the run was on: cpu, cuda:0; cuda:0 1/2 if two processes shared it")
    threads: int | None = entry("threads of torch within one operation")
    deterministic: bool | None = entry("whether torch was restricted to deterministic algorithms")
    document: Mapping[str, Any] = entry(
        "all of environment.json but the code, packages and flags included, as JSON", at=""
    )


@dataclass(frozen=True)
class TaskVersion:
    """One row for each version of a task that runs used."""

    task: str = entry("name of the task")
    version: int = entry("raised when the meaning of the task or of its numbers changes", at="task_version")
    source: str = entry("SHA-256 of the task's source", at="task_source")
    data: str = entry("checksum of its data files; empty where it reads none", at="task_data")


@dataclass(frozen=True)
class RunRow:
    """One row per run key: what was asked for, as the latest attempt recorded it."""

    run_key: str = entry("SHA-256 of all that changes the result and of nothing else", at="key")
    group_key: str = entry("the same without the seed; runs that share it are averaged", at="group")
    key_version: int = entry("version of the rule that makes run keys")
    engine: int = entry("raised when the arithmetic of the harness changes")
    recorded_by: str = entry("attempt whose spec.json this row is", at="")
    execution: str = entry("device, and settings of it, as JSON", at="", absent='{"device":"cpu"}')


@dataclass(frozen=True, kw_only=True)
class ValueRow(Metric):
    """One row per metric of an attempt."""

    attempt: str = entry("attempt that it belongs to", "", at="")
    value: float | None = entry("the value; NULL if it does not exist", None)
    is_primary: bool = entry("whether it is the task's primary metric", False, at="primary")

    def __post_init__(self) -> None:
        """Accept a stored value as it is, even if a task may not declare its metric so."""


@dataclass(frozen=True, kw_only=True)
class AttemptResult:
    """One row per attempt at a run. Nothing is dropped: a failed attempt is a row with its reason."""

    attempt: str = entry("number among the attempts at its run, time of its start, random part; sorts by number", "")
    run_key: str = entry("run that it is an attempt at", "", at="key")
    status: str = entry(f"{', '.join((*FINAL, *FAILED))}; unfinished: running, {', '.join(CONTINUABLE)}")
    concluded: bool = entry("whether there is a result.json: its status will not change any more", True, at="")
    copied: bool | None = entry("whether the result was copied from another results folder, not made here", None, at="")
    reason: str | None = entry("why it failed, or the last error or warning", None)
    executed: str | None = entry(
        "how its steps were executed, the mode of its run; NULL in records of earlier versions and of failed runs", None
    )
    compiled: int | None = entry("functions that were compiled for its steps; NULL as `executed`", None, least=0)
    graphs: int | None = entry("CUDA graphs that its steps were recorded as; NULL as `executed`", None, least=0)
    why_plain: str | None = entry("why its steps were plain, though compiled ones are its default", None)
    step: int | None = entry("step, counted from 1, where a chain became non-finite", None)
    chain: int | None = entry("that chain, counted from 0", None)
    started: str | None = entry("start, UTC", None, type="timestamp")
    finished: str | None = entry("end, UTC; NULL while unfinished", None, type="timestamp")
    seconds_sampling: float | None = entry("wall seconds spent in steps", None, at="seconds.sampling", least=0)
    seconds_observing: float | None = entry("wall seconds spent in observers", None, at="seconds.observing", least=0)
    seconds_checkpoint: float | None = entry(
        "wall seconds spent on checkpoints", None, at="seconds.checkpoint", least=0
    )
    seconds_setup: float | None = entry(
        "wall seconds spent on preparation and compilation", None, at="seconds.setup", least=0
    )
    steps_done: int | None = entry("steps of each chain", None, least=0)
    passes: float | None = entry(
        "gradient evaluations of a chain, in passes through the data; all included", None, least=0
    )
    passes_per_step: float | None = entry("the same for one step", None, least=0)
    full_gradients: bool | None = entry("whether all gradients of a step are of the full U; NULL: not recorded", None)
    draws_kept: int | None = entry(
        "draws of a chain after burn-in and thinning, from which the metrics are computed", None, least=0
    )
    draws_stored: int | None = entry("draws of a chain in draws.safetensors", None, least=0)
    draws_stride: int | None = entry("every draws_stride-th kept draw is stored; 0: none", None, least=0)
    environment: str | None = entry("environment that it ran in", None, at="")
    code: Mapping[str, Any] = entry("code that it ran, as JSON; the view `plugin` has it", dict, at="", absent="{}")
    path: str = entry("its directory, below the results folder", "", at="")
    block_runs: int | None = entry("runs that advanced together, whose time is shared out", None, column=None)
    truth: str | None = entry("checksum of the stored truth that the metrics were computed with", None, column=None)
    metrics: tuple[ValueRow, ...] = entry("rows of `metric`", (), column=None)
    files: Mapping[str, str] = entry("rows of `artifact`: name -> SHA-256", dict, column=None)


@dataclass(frozen=True)
class CurvePoints:
    """One row per curve of an attempt. The view `curve` has a row for each point."""

    attempt: str = entry("attempt that it belongs to")
    name: str = entry("name of the curve")
    x: list[float] = entry("abscissas")
    y: list[float] = entry("ordinates of chain 0, then those of chain 1 and so on; NULL where one does not exist")


@dataclass(frozen=True)
class Artifact:
    """One row per file that a concluded attempt left."""

    attempt: str = entry("attempt that it belongs to", at="")
    file: str = entry("name within the attempt's directory", at="")
    sha256: str = entry("checksum of its content when it was written", at="")
    bytes: int | None = entry("size; NULL where the file is gone", at="")


class Level(StrEnum):
    """How far the numbers of an attempt were verified, from least to most."""

    REPORTED = "reported"
    RESCORED = "rescored"
    REPLAYED = "replayed"
    RUN_HERE = "run here"

    def ranks(self, protocol: str) -> bool:
        """Return whether rows of a protocol are ranked at this level: `RUN_HERE`, and others that were rescored."""
        return self == Level.RUN_HERE or (protocol == ELSEWHERE and self != Level.REPORTED)


ELSEWHERE = "elsewhere"
"""The protocol of rows that other software made and `bench score` measured. They cannot be replayed."""


@dataclass(frozen=True)
class Verification:
    """One row per attempt of an exported folder: what the owner of the folder did to verify it."""

    attempt: str = entry("attempt that it belongs to")
    level: str = entry(f"{', '.join(Level)}: {Level.RUN_HERE} is by the owner of the folder")
    how: str = entry("what was compared, and the outcome")
    salt: str = entry("text from which `bench verify` derived seeds, or which run it replayed; empty for neither")
    laws: str = entry("outcome of the laws at the row's settings, by the folder's owner, as JSON; empty: not run", "")


@dataclass(frozen=True)
class Event:
    """One row per line of events.jsonl."""

    attempt: str = entry("attempt that it belongs to", at="")
    i: int = entry("number of the line, counted from 0", at="")
    time: datetime = entry("time of the event, UTC")
    event: str = entry(
        "created, started, resumed, moved (to another machine or device), restarted (although it has a checkpoint), "
        "checkpoint, warning, diverged, took over, scored, finished, failed, "
        f"{', '.join(PAUSED)}"
    )
    detail: Mapping[str, Any] = entry("the other fields, as JSON", at="")


@dataclass(frozen=True)
class TableSchema:
    """A table: what a row is, its columns by name, its key, and where its rows come from.

    of   "attempt": each row is of one attempt; "several": several attempts share a row, and the latest one's counts; ""
    """

    comment: str
    columns: Mapping[str, SchemaColumn]
    key: tuple[str, ...] = ()
    of: str = "attempt"


def _table(record: type, *key: str, of: str = "attempt") -> TableSchema:
    columns_of_record = columns(record)
    first = {"attempt": columns_of_record["attempt"]} if "attempt" in columns_of_record else {}
    return TableSchema((record.__doc__ or "").replace("\n    ", " ").strip(), first | columns_of_record, key, of)


def _run() -> TableSchema:
    """Return the table of runs: its own columns, and those of the RunSpec.

    A part of the RunSpec has columns for its name, its source and its parameters.
    """
    row = columns(RunRow)
    first = {name: row.pop(name) for name in ("run_key", "group_key", "key_version", "engine")}
    for f in fields(RunSpec):
        if f.name in PARTS:
            for name, c in columns(Component).items():
                full = name.format(f.name)
                at = (f.name, *c.at)
                first[full] = replace(c, name=full, comment=c.comment.format(f.name), at=at)
    return replace(_table(RunRow, "run_key", of="several"), columns=first | columns(RunSpec) | columns(Execution) | row)


TABLES: Mapping[str, TableSchema] = {
    "meta": _table(Meta, "key", of=""),
    "environment": _table(Environment, "environment", of="several"),
    "task_version": _table(TaskVersion, "task", "version", "source", "data", of="several"),
    "run": _run(),
    "attempt": _table(AttemptResult, "attempt"),
    "metric": _table(ValueRow),
    "curve_points": _table(CurvePoints),
    "artifact": _table(Artifact),
    "event": _table(Event),
    "verification": _table(Verification, "attempt", of=""),
}
"""Every table of the store, in the order of the data dictionary."""


def tables(of: str) -> list[str]:
    """Return the tables whose rows come from `of`."""
    return [name for name, table in TABLES.items() if table.of == of]


def columns_of(table: str) -> Mapping[str, SchemaColumn]:
    """Return the columns of a table by name."""
    return TABLES[table].columns
