"""`bench replay`: repeat a run from its spec.json and compare the bits; if they differ, show where first, and why."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import Bench, DataError, Registry, Result, UsageError
from harness.application import Progress
from harness.contracts import data
from harness.reporting import table
from harness.reports import Table
from harness.results import PARTS, Attempt, RunSpec, Send, Status, checksum, environment
from harness.results import spec as specs
from harness.runs import Job, call, task_facts, truths
from harness.system import SEAL, read_json
from harness.tasks import DataFile
from plugins.sharing.submission import TARGET
from plugins.upkeep.bitwise import FILES, Difference, differing_arrays, differing_results
from plugins.upkeep.lookup import concluded_attempt
from plugins.upkeep.stored_spec import code, installed, offer, recorded_spec

RERUN = "harness.runs.worker:rerun"

COORDINATES = 8
"""Coordinates of a position that are shown."""


@dataclass(frozen=True)
class ReplayRequest:
    """A concluded attempt, its recorded run with the current code, and what changed since."""

    attempt: Attempt
    stored: Mapping[str, Any]
    spec: RunSpec
    data: Sequence[DataFile]
    device: str
    changes: Sequence[str]


@dataclass(frozen=True)
class Replay:
    """The result of a replay.

    differences   the first difference in each array and field; if empty, all that was compared has the same bits
    compared      what was compared; `missing` is what could not be compared, with the reason
    environment   entry -> (then, now), for entries that differ
    damaged       kept files whose checksum is not the one in result.json; True if the replay reproduced the original
    last_finite   for a diverged run: the position of the chain one step before
    trace         for a failed run: the traceback
    """

    asked: ReplayRequest
    again: Mapping[str, Any]
    differences: Sequence[Difference]
    compared: Sequence[str]
    missing: Sequence[str]
    environment: Mapping[str, tuple[Any, Any]]
    damaged: Mapping[str, bool]
    last_finite: Sequence[float] | None = None
    trace: str | None = None

    @property
    def same(self) -> bool:
        """Whether something was compared, nothing was missing, and nothing differs."""
        return not self.differences and not self.missing and bool(self.compared)

    def why(self) -> list[str]:
        """Return the facts that may explain the differences, or a statement that there are none."""
        facts = [*self.asked.changes]
        for file, made_again in self.damaged.items():
            how = "; the replay made it as it was written" if made_again else ""
            facts.append(f"{file} of the attempt is damaged: its checksum does not match result.json{how}")
        for move in self.asked.attempt.moves() if self.asked.device != "cpu" else ():
            changed = [
                f"{n} {move['before'][n]} -> {now}" for n, now in move["now"].items() if isinstance(now, str | int)
            ]
            facts.append(f"the run continued on another machine: {', '.join(changed)}")
        if self.environment:
            differing = ", ".join(f"{name} {then} -> {now}" for name, (then, now) in self.environment.items())
            facts.append(f"the environment is not the same: {differing}")
        return facts or [
            "code, engine, data and environment are the same and the kept files are whole: it is not deterministic"
        ]


def request(attempt: Attempt, registry: Registry, *, anyway: bool) -> ReplayRequest:
    """Return the replay request for an attempt.

    Raise `UsageError` if code, engine or data are not those of the attempt, unless `anyway`; `PluginError` if the code
    is missing; `DataError` if the records cannot be read.
    """
    stored, damage = attempt.read_result()
    if stored is None:
        raise DataError(f"{attempt.path}: {damage or 'there is no result.json'}; the run's command repeats it")
    spec, record = recorded_spec(attempt), read_json(attempt.path / "spec.json") or {}
    if spec.sampler.target == TARGET:
        raise UsageError(f"run {spec.key[:12]} was made by other software and scored here: it cannot be repeated")
    offers = {kind: offer(registry, kind, getattr(spec, kind), attempt) for kind in PARTS}
    sampler, schedule, task = (installed(offers[kind], getattr(spec, kind)) for kind in PARTS)
    now = replace(spec, sampler=sampler, schedule=schedule, task=task)
    files = task_facts(offers["task"], task.params).datasets
    changes = _changes(record, spec, now, data.checksum(files))
    truth = truths.read(attempt.path.parents[3], now) if stored.get("truth") else None
    if truth is not None and truth[SEAL] != stored["truth"]:
        changes.append(f"the truth of task {task.name} was computed again")
    if changes and not anyway:
        raise UsageError(
            f"{'; '.join(changes)}. The run used {code(attempt)}; install that again, "
            "or repeat it with the current code by --anyway"
        )
    device = str((read_json(attempt.path / "environment.json") or {}).get("device") or spec.execution.device)
    return ReplayRequest(attempt, stored, now, files, device.partition(" ")[0], changes)


def repeat(asked: ReplayRequest, job: Job, listen: Send) -> Replay:
    """Repeat the run in a worker, in a temporary folder, and compare it with the attempt."""
    with tempfile.TemporaryDirectory(prefix="bench-replay-") as folder:
        if not asked.stored.get("truth"):  # its metrics were computed without one
            job = replace(job, results=Path(folder))
        done = call(RERUN, job, Path(folder), listen=listen)
        return _compared(asked, done)


def _changes(record: Mapping[str, Any], then: RunSpec, now: RunSpec, data: str) -> list[str]:
    versions = (("key_version", specs.KEY_VERSION), ("engine", specs.ENGINE))
    changes = [f"{name} was {record[name]}, is now {value}" for name, value in versions if record[name] != value]
    for kind in PARTS:
        old, new = getattr(then, kind), getattr(now, kind)
        if new.source != old.source:
            changes.append(f"the code of {kind} {old.name} changed: source {old.source[:12]}, now {new.source[:12]}")
    if data != then.data:
        changes.append(f"task {then.task.name} reads other data: checksum {then.data[:12]}, now {data[:12]}")
    return changes


def _compared(asked: ReplayRequest, done: Mapping[str, Any]) -> Replay:
    stored, new = asked.attempt.path, Path(done["attempt"])
    again = Attempt(new).result() or {}
    differences, missing, compared = [], [], []
    kept: Mapping[str, str] = asked.stored.get("files") or {}
    for file in FILES:
        if file in kept and not (stored / file).exists():
            missing.append(f"{file} is gone from the attempt")
            continue
        if file not in kept and not (new / file).exists():
            continue
        try:
            compared.append(file)
            differences += differing_arrays(stored, new, file)
        except (ValueError, OSError) as error:
            differences.append(Difference(file, "", "", str(error), "reads"))
    compared.append("result.json")
    differences += differing_results(asked.stored, again)
    damaged = _damaged(stored, new, kept)
    then, now = (read_json(folder / "environment.json") or {} for folder in (stored, new))
    changed = environment.differences(then, now)
    return Replay(asked, again, differences, compared, missing, changed, damaged, done["last_finite"], done["trace"])


def _damaged(stored: Path, new: Path, kept: Mapping[str, str]) -> dict[str, bool]:
    """Return the damaged files of the attempt, and whether the replay reproduced their original content."""
    wrong = [f for f, digest in kept.items() if (stored / f).exists() and checksum(stored / f) != digest]
    return {file: (new / file).exists() and checksum(new / file) == kept[file] for file in wrong}


def replay(
    bench: Bench,
    run: Annotated[str, typer.Argument(help="The beginning of a run key (6 digits at least), or an attempt.")],
    anyway: Annotated[bool, typer.Option("--anyway", help="Repeat it even if code, engine or data changed.")] = False,
) -> Result:
    """Repeat a finished run separately and compare bit for bit. Exit code 1 if the bits differ.

    A diverged run must diverge again, a failed run must fail again. The results are not changed.

    Examples:
        bench replay RUN  # the beginning of a run key, as `bench ls runs` prints it
        bench replay RUN --anyway
    """
    ledger = bench.ledger
    ledger.check_version()
    registry = bench.registry
    asked = request(concluded_attempt(ledger, run), registry, anyway=anyway)
    for change in asked.changes:
        bench.say(f"note: {change}")
    job = bench.job([asked.spec], asked.data, asked.device)
    with Progress(bench, [job]) as progress:

        def listen(kind: str, content: dict[str, Any]) -> None:
            """Show progress only: warnings were shown at the first run, and the result says how it ended."""
            if kind == "progress":
                progress.listen(kind, content)

        replayed = repeat(asked, job, listen)
    return Result(_answer(replayed), [_record(replayed)], exit_code=int(not replayed.same))


def _answer(replayed: Replay) -> list[Table | str]:
    spec, attempt = replayed.asked.spec, replayed.asked.attempt
    run = (
        f"run {attempt.path.parent.name[:12]}: {spec.method} on {spec.task.name}, seed {spec.seed}; {_ending(replayed)}"
    )
    lines = [run, replayed.trace.rstrip()] if replayed.trace else [run]
    if replayed.compared and not replayed.differences:
        lines.append(f"same bits: {', '.join(replayed.compared)}")
    rest = [f"not compared: {reason}" for reason in replayed.missing]
    if replayed.same and replayed.environment:
        rest.append(f"although {replayed.why()[-1]}")
    if not replayed.differences:
        return ["\n".join([*lines, *rest])]
    lines.append("not the same bits:")
    columns = ["file", "entry", "first at", "kept", "replayed", "differing", "largest difference"]
    rows = [dict(zip(columns, _cells(one), strict=True)) for one in replayed.differences]
    return ["\n".join(lines), table(rows), "\n".join([*(f"why: {fact}" for fact in replayed.why()), *rest])]


def _ending(replayed: Replay) -> str:
    """Return how the replay ended: "done", "diverged at step 120, chain 2, a step before at [1.2e+308, 0.1]"."""
    status = str(replayed.again["status"])
    if status != Status.DIVERGED:
        return f"{status}: {replayed.again['reason']}" if replayed.again.get("reason") else status
    text = f"diverged at step {replayed.again['step']:,}, chain {replayed.again['chain']}"
    if replayed.last_finite is None:
        return text
    more = ", ..." if len(replayed.last_finite) > COORDINATES else ""
    position = ", ".join(f"{x:.6g}" for x in replayed.last_finite[:COORDINATES])
    return f"{text}, a step before at [{position}{more}]"


def _cells(one: Difference) -> list[str]:
    share = f"{one.count:,} of {one.total:,}" if one.total > 1 else ""
    largest = "" if one.largest is None else f"{one.largest:.3g}"
    return [one.file, one.entry, one.where, one.stored, one.again, share, largest]


def _record(replayed: Replay) -> dict[str, Any]:
    first = replayed.differences[0] if replayed.differences else None
    names = ("file", "entry", "where", "stored", "again", "count", "total", "largest")
    return {
        "run_key": replayed.asked.attempt.path.parent.name, "attempt": replayed.asked.attempt.id, "same": replayed.same,
        "status": replayed.again.get("status"), "compared": list(replayed.compared),
        "missing": list(replayed.missing), "differences": len(replayed.differences),
        **{f"first_{name}": getattr(first, name) if first else None for name in names},
        "why": [] if replayed.same else replayed.why(), "changes": list(replayed.asked.changes),
        "environment": [f"{n}: {then} -> {now}" for n, (then, now) in replayed.environment.items()],
        "damaged": list(replayed.damaged), "step": replayed.again.get("step"), "chain": replayed.again.get("chain"),
        "last_finite": replayed.last_finite, "traceback": replayed.trace,
    }  # fmt: skip
