"""The verification of the numbers in a submission: what `bench verify` does after the files were checked.

Runs of each row are chosen by a hash of a salt, which the sender could not know, and the run key, and are repeated
here. In the environment that the sender had, the bits must be equal. Numbers of another version of the harness are not
called false if they differ. On another machine rounding differs, and with it
every draw of a chaotic chain; there the metrics of the row's runs and of the repeated ones are compared as two samples.

A run that was made on a GPU is repeated on a GPU only. If its bits differ, the same test decides, even if both
environments are equal: their records lack some facts that decide the bits on a GPU, such as the version of the driver.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    RunSpec,
    Status,
    Verification,
    environment,
    laws,
    reader,
    rescored,
)
from harness.runs import EndedError, Job, RunRequest, call, expand
from harness.system import read_json
from plugins.checking import outcomes
from plugins.sharing.submission import TARGET, Array
from plugins.sharing.submitted import SubmittedRuns
from plugins.tuning import studies
from plugins.upkeep import replay
from plugins.upkeep.bitwise import differing_results
from plugins.upkeep.rescoring import Asked
from plugins.upkeep.stored_spec import installed, offer, other_code, recorded_spec, truth_of

LEVEL = 0.01
"""Level of the test on another machine: the share of honest rows that it refuses, by Holm over the row's numbers."""
ROUNDING = 1e-3
"""Largest relative difference between a metric of kept draws, which are float32, and the one of the run."""
FEWEST = 3
"""Least number of reported runs for this test."""
REPEATED = 5
"""Runs that are repeated for this test. With five reported and five repeated runs, drawn from 200 seeds each of three
samplers on gaussian2d, mixture5 and blr-heart, it refuses up to 1 % of honest rows. It detects a joint error that was
divided by 5 in 9 to 89 % of rows, and by 10 in 27 to 100 %. With one repeated run it detects the latter in 3 to 18 %.
"""
DRAWS = "draws.safetensors"
COUNTED = ("steps_done", "passes", "passes_per_step", "draws_kept")
"""Entries of a result that rounding does not change."""
BY_CHOICE = ("draws_stored", "draws_stride")
"""Entries of a result that `--draws` decides."""
DESCRIBED = ("unit", "direction", "target", "primary")
"""Entries of a metric that reports take from the runs."""
RESCORE = "plugins.upkeep.rescoring:rescore"
UNLIKE = ("id", "code", "cores")
"""Entries in which two environments with equal bits may differ."""

Row = dict[str, Any]


class Contradiction(Exception):  # noqa: N818 - a finding
    """The numbers of a row are not those that the code here gives; the message says which. If that is the code that
    made the row, the row is false.
    """


@dataclass(frozen=True)
class Verdict:
    """The result for one row: its level, an explanation (`how`), and whether its numbers are wrong (`refused`)."""

    attempts: Sequence[Row]
    level: Level
    how: str
    refused: bool = False

    def records(self, salt: str) -> dict[str, Verification]:
        """Return what an exported folder stores about the row, by attempt."""
        used = salt if self.level in (Level.REPEATED, Level.REPLAYED) else ""
        return {row["attempt"]: Verification(row["attempt"], self.level, self.how, used) for row in self.attempts}


@dataclass(frozen=True)
class Repeated:
    """A run that was repeated here: its record, and the first difference of its bits ("" if they are equal)."""

    record: reader.Record
    difference: str


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
    """Run the laws at the settings of rows that were verified far enough to rank; return the outcomes by attempt."""
    attempts = [row["attempt"] for one in verdicts if one.level.ranks("") for row in one.attempts]
    query = """select attempt, sampler, sampler_source, sampler_params from attempt join run using (run_key)
    where attempt in (select unnest(?::varchar[]))"""
    rows = submission.store.rows(query, [attempts])
    judged = outcomes.outcomes(bench.registry, bench.plugins, outcomes.held_in(rows))
    return {row["attempt"]: judged.get(laws.key(row["sampler_source"], row["sampler_params"]), "") for row in rows}


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
    """

    submission: SubmittedRuns
    job: Job
    plugins: Registry

    def verdict(self, rows: Sequence[Row], salt: str, replays: int) -> Verdict:
        """Rescore the runs of one row whose draws were sent, repeat some of its runs, and return the verdict."""
        done: list[str] = []
        level = Level.REPORTED
        try:
            if count := self._rescore(rows):
                done.append(f"the metrics of {count} of {len(rows)} runs were computed again from their draws")
                if count == sum(row["status"] == Status.DONE for row in rows):  # a row is no better than its worst run
                    level = Level.RESCORED
            if rows[0]["protocol"] == ELSEWHERE:
                return Verdict(rows, level, "; ".join([*done, "made by other software, which cannot be replayed"]))
            if not replays:
                return Verdict(rows, level, "; ".join(done) or "its files are whole; nothing was replayed")
            level, agreement = self._replay(rows, chosen(rows, salt), replays)
            done.append(agreement)
        except Contradiction as wrong:
            if other := next(filter(None, (other_code(self.submission.places[row["attempt"]]) for row in rows)), ""):
                return Verdict(rows, Level.REPORTED, f"not judged, because {other}: {wrong}")
            return Verdict(rows, Level.REPORTED, str(wrong), refused=True)
        except BenchError as obstacle:
            done.append(f"not replayed: {obstacle}")
        return Verdict(rows, level, "; ".join(done))

    def _replay(self, rows: Sequence[Row], order: Sequence[Row], replays: int) -> tuple[Level, str]:
        """Repeat runs of a row; return the level that follows, and how they agree.

        Raise `Contradiction` if they disagree, and `BenchError` if they cannot be compared.

        If the bits differ, at least five runs are repeated, or all if there are fewer: one says little about a mean.
        """
        if not order:
            raise RunError("no run of it ended")
        first = replay.request(self.submission.places[order[0]["attempt"]], self.plugins, anyway=False)
        where = "on another machine" if _device(first.spec) == "cpu" else "on a GPU"
        self._check_labels(rows)
        again = {row["seed"]: self._repeated(row) for row in order[:replays]}
        if any(one.difference for one in again.values()):
            again |= {row["seed"]: self._repeated(row) for row in order[replays:REPEATED]}
        seeds = f"seed{'s' * (len(again) > 1)} {', '.join(map(str, sorted(again)))} replayed"
        if not any(one.difference for one in again.values()):
            return Level.REPLAYED, f"{seeds} with the same bits"
        family = {
            name: p
            for name, reported in self._numbers(rows).items()
            if (p := _alike(reported, [_numbers(one.record).get(name) for one in again.values()])) is not None
        }
        if not family:
            difference = next(one.difference for one in again.values() if one.difference)
            raise RunError(f"on this machine the bits differ ({difference}), and fewer than three runs can be compared")
        adjusted = dict(zip(family, statistics.holm([*family.values()]), strict=True))
        worst = min(adjusted, key=lambda name: adjusted[name])
        finding = f"{worst} has p = {adjusted[worst]:.2g} after Holm over {len(adjusted)} numbers"
        if adjusted[worst] < LEVEL:
            raise Contradiction(f"{seeds} {where}, with other numbers: {finding}")
        return Level.REPEATED, f"{seeds} {where}, with numbers of the same mean: {finding}"

    def _repeated(self, row: Row) -> Repeated:
        """Repeat one run and compare it; raise `Contradiction` if it differs although its environment is the same."""
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
            result, environment = Attempt(again).result() or {}, read_json(again / "environment.json") or {}
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
        if difference and device == "cpu" and _kind(there) == _kind(environment):
            raise Contradiction(f"seed {row['seed']} has other numbers in the same environment: {difference}")
        if difference and result["status"] != row["status"]:
            raise RunError(f"seed {row['seed']} is {row['status']} there and {result['status']} on this machine")
        return Repeated(record, difference)

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
                one.budget, {"schedule": one.schedule.name, "run.compile": one.execution.compile, **given},
                device=one.execution.device,
            )  # fmt: skip
            meant = {(spec.key, spec.budget) for _, runs in expand(self.plugins, wanted, study=tuned) for spec in runs}
            if not {(spec.key, spec.budget) for spec in specs} <= meant:
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
        """Return the numbers that are compared on another machine, by name, for the runs that are done."""
        done = [row["attempt"] for row in rows if row["status"] == Status.DONE]
        query = "select name, value from metric where attempt in (select unnest(?::varchar[])) order by attempt"
        numbers: dict[str, list[float | None]] = {}
        for row in self.submission.store.rows(query, [done]):
            numbers.setdefault(row["name"], []).append(row["value"])
        return numbers | {_of_curve(name): [_size(y) for _, y in pairs] for name, pairs in self._curves(done).items()}

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
        return len(measured)

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


def _numbers(record: reader.Record) -> dict[str, float | None]:
    """Return the metrics and curves of a repeated run as numbers by name."""
    curves = {_of_curve(curve.name): _size(curve.y) for curve in record.curves}
    return {row["name"]: row["value"] for row in record.rows["metric"]} | curves


def _of_curve(name: str) -> str:
    return f"mean square of curve {name}"


def _size(y: Array) -> float | None:
    """Return the mean square of a curve over its finite values; None if it has none."""
    values = y[np.isfinite(y)]
    return float(np.mean(values**2)) if values.size else None


def _alike(reported: Sequence[float | None], repeated: Sequence[float | None]) -> float | None:
    """Return p of equal means for two samples of a number; None if there are too few values."""
    a, b = ([value for value in values if value is not None and np.isfinite(value)] for values in (reported, repeated))
    return same_mean(a, b) if len(a) >= FEWEST and b else None


def same_mean(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p of "one mean" for two samples (n,) and (m,): Student's t of pooled variance.

    t = (mean a - mean b) / (s sqrt(1/n + 1/m)) with n + m - 2 degrees of freedom, on the logarithms if all values are
    positive. It assumes normal values of one variance, and that members of a and b that belong together are not
    negatively correlated: with a positive correlation it rejects less often. If only one of the samples varies, or
    neither does and they differ, there is no t: p is then 1 / C(n + m, m), the least that a permutation gives.
    """
    from scipy.stats import t

    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    n, m = len(x), len(y)
    if min(x.min(), y.min()) > 0:
        x, y = np.log(x), np.log(y)
    apart = abs(float(x.mean() - y.mean()))
    if apart <= 1e-12 * max(abs(float(x.mean())), abs(float(y.mean()))):
        return 1.0
    spread = float(((x - x.mean()) ** 2).sum() + ((y - y.mean()) ** 2).sum())
    if spread <= (1e-12 * apart) ** 2 or np.ptp(x) == 0:
        return 1 / math.comb(n + m, m)
    return float(2 * t.sf(apart / math.sqrt(spread / (n + m - 2) * (1 / n + 1 / m)), n + m - 2))


def _kind(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of an environment that decide the bits of a run."""
    return {name: value for name, value in environment.items() if name not in UNLIKE}


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= ROUNDING * max(abs(a), abs(b), ROUNDING)
