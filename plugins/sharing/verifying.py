"""The verification of the numbers in a submission: what `bench verify` does after the files were checked.

Some runs of each row are repeated here: in the environment that the sender had, their bits must be equal. Then the row
runs on seeds that follow from a salt, which the sender could not know. These runs are its rank, and the runs that were
sent must not differ significantly from them. Numbers of another version of the harness are not called false if they
differ.

A run that was made on a GPU is repeated on a GPU only, where other bits prove nothing, even if both environments are
equal: their records lack some facts that decide the bits on a GPU, such as the version of the driver.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness import Bench, BenchError, Registry, RunError, statistics
from harness.contracts import plugin_process
from harness.reporting.commands import asked
from harness.reports import Level
from harness.results import (
    ELSEWHERE,
    FINAL,
    PARTS,
    Attempt,
    Ledger,
    RunSpec,
    Status,
    Verification,
    environment,
    laws,
    ranges,
    reader,
    rescored,
)
from harness.results import spec as run_specs
from harness.runs import EndedError, Job, RunRequest, call, expand, plan
from harness.system import read_json
from plugins.checking import outcomes
from plugins.fresh_seeds import fresh_seeds
from plugins.sharing.agreement import FINISHED, Contradiction, agreement, mean_square, numbers_of, of_curve
from plugins.sharing.submission import TARGET, Array
from plugins.sharing.submitted import SubmittedRuns
from plugins.tuning import studies
from plugins.upkeep import replay
from plugins.upkeep.bitwise import differing_results
from plugins.upkeep.rescoring import Asked
from plugins.upkeep.stored_spec import installed, offer, other_code, recorded_spec, truth_of

CURVE_ROUNDING = 1e-3
"""Largest difference between the roots of two values of a curve: most are squares of errors in sds."""
DRAWS = "draws.safetensors"
COUNTED = ("steps_done", "passes", "passes_per_step", "draws_kept")
"""Entries of a result that rounding does not change."""
BY_CHOICE = ("draws_stored", "draws_stride")
"""Entries of a result that `--draws` decides."""
DESCRIBED = ("unit", "direction", "target", "primary")
"""Entries of a metric that reports take from the runs."""
RESCORE = "plugins.upkeep.rescoring:rescore"

Row = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """The result for one row.

    attempts  the runs that were sent, and their level
    how       an explanation
    refused   whether their numbers are wrong
    fresh     attempt -> run key of the runs on fresh seeds, which are the row's rank; {} if there are none
    """

    attempts: Sequence[Row]
    level: Level
    how: str
    refused: bool = False
    fresh: Mapping[str, str] = field(default_factory=dict)

    @property
    def reached(self) -> Level:
        """The level of the runs that are the row's rank."""
        return Level.RUN_HERE if self.fresh else self.level

    def records(self, salt: str) -> dict[str, Verification]:
        """Return what an exported folder stores about the row, by attempt."""
        used = salt if self.level == Level.REPLAYED else ""
        sent = {row["attempt"]: Verification(row["attempt"], self.level, self.how, used) for row in self.attempts}
        return sent | {attempt: Verification(attempt, Level.RUN_HERE, self.how, salt) for attempt in self.fresh}


def rows_of(submission: SubmittedRuns) -> list[list[Row]]:
    """Return the attempts that count, grouped by row of a leaderboard: they differ in nothing but the seed.

    Trials of `bench tune` and attempts that do not count are left out, because nothing would verify them.
    """
    query = """select attempt, run_key, group_key, method, task, protocol, seed, status from result
    order by task, protocol, method, group_key, seed"""
    groups: dict[str, list[Row]] = {}
    for row in submission.store.rows(query):
        if row["attempt"] not in submission.refused:
            groups.setdefault(row["group_key"], []).append(row)
    return [*groups.values()]


def laws_of(verdicts: Sequence[Verdict], submission: SubmittedRuns, bench: Bench) -> dict[str, str]:
    """Run the laws at the settings of rows that were verified far enough to rank.

    Return the outcomes by attempt, as JSON; "" if there is none.
    """
    ranked = {one.attempts[0]["attempt"]: one for one in verdicts if one.reached.ranks("")}
    query = """select attempt, sampler, sampler_source, sampler_params from attempt join run using (run_key)
    where attempt in (select unnest(?::varchar[]))"""
    rows = submission.store.rows(query, [[*ranked]])
    judged = outcomes.outcomes(bench.registry, bench.plugins, outcomes.held_in(rows))
    columns = ("sampler", "sampler_source", "sampler_params")
    known = {row["attempt"]: judged.get(laws.key(*(row[column] for column in columns))) for row in rows}
    of_row = {attempt: outcome.to_json() if outcome else "" for attempt, outcome in known.items()}
    return {
        attempt: of_row[first]
        for first, one in ranked.items()
        for attempt in (*(row["attempt"] for row in one.attempts), *one.fresh)
    }


def chosen(rows: Iterable[Row], salt: str) -> list[Row]:
    """Return the runs of a row that have ended, in the order in which to repeat them: by SHA-256(salt:run key)."""
    ended = [row for row in rows if row["status"] in FINAL]
    return sorted(ended, key=lambda row: hashlib.sha256(f"{salt}:{row['run_key']}".encode()).hexdigest())


@dataclass(frozen=True)
class Verifier:
    """A verifier for the rows of one submission.

    submission  the opened submission
    job         where to repeat runs, with the results folder that has stored truths; its runs are filled in
    plugins     the installed ones, and the submitted code if its execution was requested
    folder      the results folder for runs on fresh seeds
    """

    submission: SubmittedRuns
    job: Job
    plugins: Registry
    folder: Path

    def verdict(self, rows: Sequence[Row], salt: str, replays: int) -> Verdict:
        """Rescore the runs of one row whose draws were sent, repeat some, run it on fresh seeds; return the verdict."""
        done: list[str] = []
        level = Level.REPORTED
        fresh: Mapping[str, str] = {}
        step = "replayed"
        try:
            if count := self._rescore(rows):
                done.append(f"the metrics of {count} of {len(rows)} runs were computed again from their draws")
                if count == sum(row["status"] == Status.DONE for row in rows):  # a row is no better than its worst run
                    level = Level.RESCORED
            if rows[0]["protocol"] == ELSEWHERE:
                return Verdict(rows, level, "; ".join([*done, "made by other software, which cannot be replayed"]))
            if not replays:
                return Verdict(rows, level, "; ".join(done) or "its files are whole; nothing was run")
            same, bits = self._replay(rows, chosen(rows, salt)[:replays])
            level = Level.REPLAYED if same else level
            done.append(bits)
            step = "run on fresh seeds"
            fresh, agreement = self._run(rows, salt)
            done.append(agreement)
        except Contradiction as wrong:
            if other := next(filter(None, (other_code(self.submission.places[row["attempt"]]) for row in rows)), ""):
                return Verdict(rows, Level.REPORTED, f"not judged, because {other}: {wrong}")
            return Verdict(rows, Level.REPORTED, str(wrong), refused=True)
        except BenchError as obstacle:
            done.append(f"not {step}: {obstacle}")
        return Verdict(rows, level, "; ".join(done), fresh=fresh)

    def _replay(self, rows: Sequence[Row], repeated: Sequence[Row]) -> tuple[bool, str]:
        """Repeat runs of a row; return whether their bits are equal, and how they agree.

        Raise `Contradiction` if they disagree in the same environment, and `BenchError` if they cannot be repeated.
        """
        if not repeated:
            raise RunError("no run of it ended")
        _device(replay.request(self.submission.places[repeated[0]["attempt"]], self.plugins, anyway=False).spec)
        self._check_labels(rows)
        differences = [self._difference(row) for row in repeated]
        seeds = f"repeated seed{'s' * (len(repeated) > 1)} {ranges(row['seed'] for row in repeated)}"
        if not any(differences):
            return True, f"{seeds} with the same bits"
        return False, f"{seeds}: this machine gives other bits ({next(filter(None, differences))})"

    def _run(self, rows: Sequence[Row], salt: str) -> tuple[dict[str, str], str]:
        """Run a row on fresh seeds; return the run keys by attempt, and how far the sent runs differ from these.

        A density is run with theta moved too, where a sampler that carries draws or numbers of the truth is another.
        Raise `Contradiction` if runs differ significantly, and `BenchError` if one does not end.
        """
        sent = [row for row in rows if row["status"] in FINAL]
        run = replay.request(self.submission.places[sent[0]["attempt"]], self.plugins, anyway=False)
        group, device = rows[0]["group_key"], _device(run.spec)
        seeds = fresh_seeds(statistics.MINIMUM_SEEDS, salt, group, known={row["seed"] for row in rows})
        specs = [replace(run.spec, seed=seed) for seed in seeds]
        job = replace(self.job, device=device, slot=device, data=run.data, draws="none")
        records = self._records(sent, replace(job, specs=specs, results=self.folder))
        numbers = numbers_of(records)
        if not any(len({*values}) > 1 for name, values in numbers.items() if name != FINISHED):
            raise Contradiction(f"its runs on {len(seeds)} seeds are all the same")
        how = f"run on {len(seeds)} fresh seeds{agreement(self._numbers(sent), numbers, 'sent runs', 'fresh ones')}"
        if elsewhere := [other for spec in specs if not spec.moved and (other := plan.moved(self.plugins, spec))]:
            with tempfile.TemporaryDirectory(prefix="bench-verify-") as folder:
                moved = numbers_of(self._records(sent, replace(job, specs=elsewhere, results=Path(folder))))
            how += f"; with theta moved{agreement(numbers, moved, 'fresh runs', 'moved ones')}"
        return {record.attempt: record.run_key for record in records}, how

    def _records(self, sent: Sequence[Row], job: Job) -> list[reader.Record]:
        """Execute a job, and return the records of its runs, whose metrics are described as those that were sent."""
        call(replay.RERUN, job, job.results, listen=lambda *_: None, seconds=job.timeout)
        attempts = [attempt for spec in job.specs for attempt in Ledger(job.results).attempts(spec.key)]
        for attempt in attempts:
            result = attempt.result() or {}
            if result.get("status") not in FINAL:
                raise RunError(f"a run on a fresh seed ends with {result.get('status')}: {result.get('reason')}")
            for row in sent if result["status"] == Status.DONE else ():
                if row["status"] == Status.DONE:
                    stored = _shown(self.submission.places[row["attempt"]])
                    _check_described(row["seed"], stored["metrics"], result["metrics"])
        return [reader.read(job.results, str(attempt.path.relative_to(job.results))) for attempt in attempts]

    def _difference(self, row: Row) -> str:
        """Repeat one run and return the first difference of its bits, "" if there is none.

        Raise `Contradiction` if it differs although its environment is the same.
        """
        attempt = self.submission.places[row["attempt"]]
        run = replay.request(attempt, self.plugins, anyway=False)
        if truth_of(attempt):
            raise RunError("its metrics were computed with a truth that `bench truth` computed there")
        newer, _ = rescored.read(attempt.path)  # reports show its metrics and curves, which come from the kept draws
        with tempfile.TemporaryDirectory(prefix="bench-verify-") as folder:
            results, device = Path(folder), _device(run.spec)
            job = replace(
                self.job, specs=[run.spec], results=results, device=device, slot=device, data=run.data,
                draws="all" if newer else self.job.draws,
            )  # fmt: skip
            again = Path(call(replay.RERUN, job, results, listen=lambda *_: None, seconds=job.timeout)["attempt"])
            result, here = Attempt(again).result() or {}, read_json(again / "environment.json") or {}
            if newer and result.get("status") == Status.DONE:
                names = tuple(metric["name"] for metric in result["metrics"])
                self._measure(job, [Asked(again, run.spec, names, always=True)])
                result = _either(result, _shown(Attempt(again)), newer["metrics"])
            record = reader.read(results, str(again.relative_to(results)))
        if result.get("status") not in FINAL:
            raise RunError(f"seed {row['seed']} ends here with {result.get('status')}: {result.get('reason')}")
        stored = _shown(attempt)
        if result["status"] == row["status"]:
            _check_described(row["seed"], stored["metrics"], result["metrics"])
        apart = {d.entry: d for d in differing_results(stored, result) if d.entry not in BY_CHOICE}
        texts = [f"{entry}: {d.stored}, here {d.again}" for entry, d in apart.items()]
        difference = texts[0] if apart else self._differing_curves(attempt, record)
        if result["status"] == row["status"] == Status.DONE and (wrong := [e for e in COUNTED if e in apart]):
            raise Contradiction(f"seed {row['seed']} has another {texts[[*apart].index(wrong[0])]}")
        there = read_json(attempt.path / "environment.json") or {}
        if difference and device == "cpu" and environment.deciding(there) == environment.deciding(here):
            raise Contradiction(f"seed {row['seed']} has other numbers in the same environment: {difference}")
        if difference and result["status"] != row["status"]:
            raise RunError(f"seed {row['seed']} is {row['status']} there and {result['status']} on this machine")
        return difference

    def _check_labels(self, rows: Sequence[Row]) -> None:
        """Raise `RunError` if method, budget and origins, which no key contains, do not give the row's runs."""
        labelled: dict[str, list[RunSpec]] = {}
        for row in rows:
            spec = self._current(self.submission.places[row["attempt"]])
            origins = {name: origin.record() for name, origin in spec.origins.items()}
            labelled.setdefault(json.dumps([spec.method, spec.budget, origins], sort_keys=True), []).append(spec)
        for specs in labelled.values():
            one = specs[0]
            study, given = asked({name: origin.record() for name, origin in one.origins.items()})
            tuned = studies.load(self.plugins, self.job.results, study) if study else None
            wanted = RunRequest(
                [one.method], [f"{one.task.name}@{one.protocol}"], [spec.seed for spec in specs], one.chains,
                one.budget,
                {"schedule": one.schedule.name, "run.compile": one.execution.compile, "run.moved": one.moved, **given},
                device=one.execution.device,
            )  # fmt: skip
            meant = {(spec.key, spec.budget) for _, runs in expand(self.plugins, wanted, study=tuned) for spec in runs}
            if not {(spec.key, run_specs.budget_label(spec.budget)) for spec in specs} <= meant:
                said = f"method ({one.method}), budget ({one.budget}) and settings"
                raise RunError(f"what its record says of {said} gives another run")

    def _differing_curves(self, attempt: Attempt, record: reader.Record) -> str:
        """Return the first curve of the submission that differs from the repeated run; "" if there is none."""
        stored = self._curves([attempt.id])
        here = {curve.name: curve for curve in record.curves}
        for name in sorted(stored.keys() | here.keys()):
            if name not in stored or name not in here:
                return f"curve {name} is missing"
            if not all(
                np.array_equal(theirs, ours.reshape(-1), equal_nan=True)
                for theirs, ours in zip(stored[name][0], (here[name].x, here[name].y), strict=True)
            ):
                return f"curve {name}"
        return ""

    def _curves(self, attempts: Sequence[str]) -> dict[str, list[tuple[Array, Array]]]:
        """Return the curves of attempts as x (n,) and y (C n,), by name."""
        query = "select name, x, y from curve_points where attempt in (select unnest(?::varchar[])) order by attempt"
        curves: dict[str, list[tuple[Array, Array]]] = {}
        for row in self.submission.store.rows(query, [[*attempts]]):
            x, y = (np.array(row[axis], dtype=np.float64) for axis in "xy")
            curves.setdefault(row["name"], []).append((x, y))
        return curves

    def _numbers(self, rows: Sequence[Row]) -> dict[str, list[float | None]]:
        """Return the numbers that are compared with fresh runs, by name."""
        done = [row["attempt"] for row in rows if row["status"] == Status.DONE]
        query = "select name, value from metric where attempt in (select unnest(?::varchar[])) order by attempt"
        numbers: dict[str, list[float | None]] = {}
        for row in self.submission.store.rows(query, [done]):
            numbers.setdefault(row["name"], []).append(row["value"])
        numbers |= {of_curve(name): [mean_square(y) for _, y in pairs] for name, pairs in self._curves(done).items()}
        return {**numbers, FINISHED: [float(row["status"] == Status.DONE) for row in rows]}

    def _rescore(self, rows: Sequence[Row]) -> int:
        """Measure runs of a row again from their draws, and return how many.

        Raise `Contradiction` if a metric differs.
        """
        rescorable: dict[Path, tuple[Row, Asked]] = {}
        for row in rows:
            attempt = self.submission.places[row["attempt"]]
            if row["status"] == Status.DONE and (attempt.path / DRAWS).exists() and not truth_of(attempt):
                try:
                    spec = self._current(attempt)
                except BenchError:  # a replay reports why its code is missing
                    continue
                names = tuple(metric["name"] for metric in _shown(attempt)["metrics"])
                rescorable[attempt.path] = row, Asked(attempt.path, spec, names, write=False)
        if not rescorable:
            return 0
        with tempfile.TemporaryDirectory(prefix="bench-verify-") as folder:  # without truths, as the runs were made
            job = replace(self.job, specs=[one.spec for _, one in rescorable.values()], results=Path(folder))
            measured = self._measure(job, [one for _, one in rescorable.values()], refused=True)
        for what in measured:
            row, _ = rescorable[what["path"]]
            _check_described(row["seed"], _shown(Attempt(what["path"]))["metrics"], what["measured"])
            for change in what["changes"]:
                before, after = change["before"], change["after"]
                if not _close(before, after):
                    seed = row["seed"]
                    raise Contradiction(f"{change['metric']} of seed {seed} is {before}, and {after} by its draws")
            self._check_curves(row, what["curves"])
        return len(measured)

    def _check_curves(self, row: Row, measured: Mapping[str, Array]) -> None:
        """Raise `Contradiction` if the curves of a run, by which rows rank, are not those of its draws."""
        stored = {
            f"{name}/{axis}": values
            for name, (curve,) in self._curves([row["attempt"]]).items()
            for axis, values in zip("xy", curve, strict=True)
        }
        for name in sorted(stored.keys() | measured.keys()):
            both = [of[name].reshape(-1) if name in of else np.empty(0) for of in (stored, measured)]
            there, here = (np.copysign(np.sqrt(np.abs(values)), values) for values in both)
            if there.shape != here.shape or not np.allclose(
                there, here, rtol=reader.ROUNDING, atol=CURVE_ROUNDING, equal_nan=True
            ):
                raise Contradiction(f"curve {name} of seed {row['seed']} is another one by its draws")

    def _measure(self, job: Job, asked: Sequence[Asked], *, refused: bool = False) -> list[dict[str, Any]]:
        """Return the results of rescoring by attempt.

        A run that cannot be rescored is left out if `refused`, and raises `RunError` otherwise.
        """
        messages: list[tuple[str, dict[str, Any]]] = []
        try:
            limit = None if job.timeout is None else job.timeout * len(asked)
            call(RESCORE, job, [*asked], listen=lambda kind, what: messages.append((kind, what)), seconds=limit)
        except EndedError as error:
            why = plugin_process.ending(error.code, job.timeout or 0)
            raise RunError(f"its draws could not be measured: {why}") from error
        for kind, what in () if refused else messages:
            if kind == "refused":
                raise RunError(f"its metrics are those of `bench rescore`, and of the repeated run: {what['reason']}")
        return [what for kind, what in messages if kind == "rescored"]

    def _current(self, attempt: Attempt) -> RunSpec:
        """Return the run of an attempt with the code that is installed now."""
        spec = recorded_spec(attempt)
        sampler, schedule, task = (
            part if part.target == TARGET else installed(offer(self.plugins, kind, part, attempt), part)
            for kind in PARTS
            for part in (getattr(spec, kind),)
        )
        return replace(spec, sampler=sampler, schedule=schedule, task=task)


def _device(spec: RunSpec) -> str:
    """Return the device on which to repeat a run; raise `RunError` if it needs a GPU and this machine has none."""
    if spec.execution.device == "cpu":
        return "cpu"
    if not (gpus := environment.gpus()):
        raise RunError("it was made on a GPU, and this machine has none; a machine that has one can repeat its runs")
    return gpus[0]


def _shown(attempt: Attempt) -> dict[str, Any]:
    """Return the result of an attempt with the metrics that reports show: those of `bench rescore` if it has any."""
    newer, _ = rescored.read(attempt.path)
    result = attempt.result() or {}
    return {**result, "metrics": (newer or result).get("metrics") or []}


def _either(result: Row, measured: Row, reported: Sequence[Row]) -> Row:
    """Return a result with each metric from the run or from its kept draws: `bench rescore` may have replaced some."""
    values = {metric["name"]: metric.get("value") for metric in reported}
    pairs = zip(result["metrics"], measured["metrics"], strict=True)
    return {**result, "metrics": [a if a["value"] == values.get(a["name"]) else b for a, b in pairs]}


def _check_described(seed: int, reported: Sequence[Row], measured: Sequence[Row]) -> None:
    """Raise if the reported metrics are not those that the task measures here, or are described differently.

    A leaderboard takes the direction, the unit and the version of a metric from the runs. Versions that differ are a
    `RunError`, other differences a `Contradiction`.
    """
    there, here = ({metric["name"]: metric for metric in metrics} for metrics in (reported, measured))
    for name in sorted(there.keys() | here.keys()):
        versions = [metrics.get(name, {}).get("version", "none") for metrics in (there, here)]
        if versions[0] != versions[1]:
            raise RunError(f"metric {name} of seed {seed} has version {versions[0]}, and here {versions[1]}")
        for what in DESCRIBED:
            if there[name].get(what) != here[name].get(what):
                said = f"{there[name].get(what)!r}, and here {here[name].get(what)!r}"
                raise Contradiction(f"metric {name} of seed {seed} has {what} {said}")


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= reader.ROUNDING * max(abs(a), abs(b), reader.ROUNDING)
