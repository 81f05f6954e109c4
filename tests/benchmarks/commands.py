"""Whole commands, timed from outside: what a user waits for. Each of `PARTS` gives records.

    python tests/benchmarks/commands.py --quick

Medians of several repeats; the first one, which fills caches of the file system, does not count, but for a command that
is to be measured from cold.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chosen
import made_up
import planned

BENCH = [sys.executable, "-c", "from harness.cli import main; main()"]
IMPORT_TORCH = [sys.executable, "-c", "import torch"]
NOTHING_TO_DO = ["run", "--sampler", "sgld", "--task", "mixture5", "--chains", "4", "--budget", "smoke"]
HEADLINE = ["run", "--sampler", "sgld,csgld", "--task", "mixture25", "--seeds", "0-9", "--chains", "4"]
SMOKE_TASKS = ("mixture25", "blr-german")
SMOKE_GOAL = 1.0
"""Seconds of twenty smoke runs beyond those of the import of torch, with which every run begins."""
PLANNED = "landsat"
WARM = """
import json, sys, time
from pathlib import Path
from harness.results.store import Store, connection
results, empty = Path(sys.argv[1]), Path(sys.argv[1], "empty.duckdb")
for _ in range(int(sys.argv[2]) + 1):
    (results / "results.duckdb").unlink(missing_ok=True)
    empty.unlink(missing_ok=True)
    began = time.perf_counter()
    assert not Store(results).refresh()
    done = time.perf_counter()
    with connection.writing(empty):
        for path in results.glob("runs/*/*/*/*.json"):
            json.loads(path.read_bytes())
    print(done - began, time.perf_counter() - done)
"""
"""Seconds of an ingest, and of what it cannot do without: the files parsed, and a database with empty tables."""
IMPORTS = "import typer, duckdb"
ROWS = """
import sys, duckdb, polars, scipy.special, typer
with duckdb.connect(sys.argv[1], read_only=True) as db:
    for table in ("run", "attempt", "metric"):
        db.sql(f"from {table}").pl()
"""
"""What no leaderboard can do without: its imports, and its rows as frames."""
ARRIVED = "taken in, their results sent by all jobs"
SPACE = 4 * 2**30
"""Bytes of memory that the largest results folder may take, beside which there must be as many left."""

Record = dict[str, Any]


def measure(*, quick: bool = False) -> list[Record]:
    """What a user waits for: name, unit, value (the median), goal, spread (least and greatest), repeats. Lower is
    better.
    """
    repeats = 2 if quick else 5
    with _surroundings() as (folder, environment):
        records = _small(folder, environment, repeats)
        records.append(_headline(folder, environment, 1 if quick else 3))
        for task in SMOKE_TASKS:
            records += _smoke(folder, task, environment, 1 if quick else 3)
        records += _cold(environment, 1 if quick else 3)
    return records


def measure_predictions(*, quick: bool = False) -> list[Record]:
    """How far `bench plan` is off, and how often a run has the slower mode by default: 20 minutes."""
    with _surroundings() as (folder, environment):
        records = _plans(folder, environment)
        records += _unseen(environment, quick=quick)
        return records + _modes(environment, quick=quick)


def measure_stores(*, quick: bool = False) -> list[Record]:
    """The same of commands on up to 100,000 runs: half an hour."""
    repeats, runs = (2, 2_000) if quick else (5, 100_000)
    with _surroundings() as (folder, environment):
        records = _ingests(folder, environment, repeats)
        for shape in ((50, 20, runs // 1000), (runs // 100, 1, 100)):
            records += _leaderboards(folder / "leaderboard", shape, environment, repeats)
        for count in (runs // 100, runs // 10, runs):
            records += _submitted(folder, environment, count)
        for count in (runs // 50, runs // 5):
            records += _exported(folder, environment, count)
    return records


PARTS = {"commands": measure, "predictions": measure_predictions, "stores": measure_stores}
"""The parts by their names in a record."""


@contextmanager
def _surroundings() -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder that is deleted afterwards, and the environment of commands, with an empty cache there."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode
    with tempfile.TemporaryDirectory(dir=_roomy()) as temporary:
        os.environ["BENCH_CACHE"] = f"{temporary}/cache"
        yield Path(temporary), {**os.environ}


def _cold(environment: Mapping[str, str], rounds: int) -> list[Record]:
    """In a process of its own, which waits for all processes that a command leaves behind."""
    _say("the first result from cold")
    script = [sys.executable, str(Path(__file__).with_name("cold.py")), "--rounds", str(rounds)]
    told = subprocess.run(script, env=dict(environment), stdout=subprocess.PIPE, text=True, check=True)
    records: list[Record] = json.loads(told.stdout)
    return records


def _small(folder: Path, environment: Mapping[str, str], repeats: int) -> list[Record]:
    _say("a thousand finished runs")
    made_up.finish(folder / "finished", "sgld", "mixture5", 1000)
    again = ["--results", str(folder / "finished"), *NOTHING_TO_DO, "--seeds"]
    imports = [sys.executable, "-c", "import typer, pluggy"]
    least = statistics.median(_run([], environment, imports) for _ in range(repeats))
    records = [
        _record("`bench --help`", 0.25, _times(["--help"], environment, repeats)),
        _record("the same command again, 1 run finished", 0.5, _times([*again, "0"], environment, repeats)),
        _record("the same command again, 1,000 runs finished", 1.0, _times([*again, "0-999"], environment, repeats)),
    ]
    return [
        record | {"why": f"importing typer and pluggy alone took {least:.2f} s in these minutes"} for record in records
    ]


def _submitted(folder: Path, environment: Mapping[str, str], runs: int) -> list[Record]:
    """Runs planned and submitted to a launcher that does nothing; the same command again, to which all is known; and
    once more, when the results of all are there.
    """
    _say(f"{runs:,} runs submitted")
    results = folder / f"submitted-{runs}"
    plugin = Path(__file__).with_name("no_launcher.py")
    words = ["--plugin", str(plugin), "--results", str(results), *NOTHING_TO_DO, "--seeds", f"0-{runs - 1}"]
    words += ["--max-runs", str(runs), "--launcher", "none"]
    records = []
    for what, goal in (("planned and submitted", 60.0), ("found again, the same command", None), (ARRIVED, None)):
        if what == ARRIVED and made_up.arrive(results) != runs:
            raise RuntimeError(f"not all of {runs:,} runs were in the parcels")
        more = [] if what == ARRIVED else ["--detach"]
        seconds, peak = _measured([*words, *more], environment)
        mib = _record(f"{runs:,} runs {what}: peak memory", None, [peak], "MiB")
        records += [_record(f"{runs:,} runs {what}", goal, [seconds]), mib]
    shutil.rmtree(results)
    return records


def _exported(folder: Path, environment: Mapping[str, str], runs: int) -> list[Record]:
    """`bench export` of runs with the curves of a smoke run, to a new folder. Its memory does not grow with the runs,
    but for what DuckDB keeps of a database that it has read, 1 GB at most.
    """
    _say(f"{runs:,} runs exported")
    results = folder / f"exported-{runs}"
    made_up.fill(results, runs // 20, 1, 20, curves=True)
    _run(["--results", str(results), "ingest"], environment)
    seconds, mib = _measured(["--results", str(results), "export", "--out", str(results / "out")], environment)
    shutil.rmtree(results)
    what = f"{runs:,} runs with curves exported"
    return [_record(what, None, [seconds]), _record(f"{what}: peak memory", None, [mib], "MiB")]


def _ingests(folder: Path, environment: Mapping[str, str], repeats: int) -> list[Record]:
    """Two hundred finished attempts, into a database that is not there yet."""
    records = []
    for words, goals, curves in (("", (0.1, 0.4), False), (", with the curves of a smoke run", (None, None), True)):
        results = folder / f"ingest-{curves}"
        attempts = made_up.fill(results, 5, 4, 10, curves=curves)
        _say(f"{attempts} attempts ingested{words}")
        command = [sys.executable, "-c", WARM, str(results), str(repeats)]
        done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=True)
        warm, parsed = zip(*(map(float, line.split()) for line in done.stdout.splitlines()[1:]), strict=True)
        cold = _times(
            ["--results", str(results), "ingest"], environment, repeats, lambda r=results: _without_database(r)
        )
        least, imports = statistics.median(parsed), _least(IMPORTS, environment, repeats)
        why = f"parsing the files and making a database with empty tables took {least:.3f} s"
        records += [
            _record(f"{attempts} attempts ingested, in a process that did it before{words}", goals[0], warm)
            | {"why": f"{why} in these minutes"},
            _record(f"{attempts} attempts ingested, the whole command{words}", goals[1], cold)
            | {"why": f"{why}, and importing typer and DuckDB {imports:.2f} s, in these minutes"},
        ]
    return records


def _leaderboards(
    results: Path, shape: tuple[int, int, int], environment: Mapping[str, str], repeats: int
) -> list[Record]:
    """The leaderboard of methods x tasks x seeds runs with ten metrics each, as a table."""
    methods, tasks, seeds = shape
    runs = methods * tasks * seeds
    what = f"leaderboard of {runs:,} runs, {runs * len(made_up.METRICS):,} metrics, {methods} methods x {tasks} tasks"
    _say(what)
    made_up.fill(results, *shape)
    _run(["--results", str(results), "ingest"], environment)
    command = ["--results", str(results), "report", "leaderboard"]
    time.sleep(2.5)  # folders that changed a moment ago are read again
    looks = _times(command, environment, repeats, lambda: (results / "results.settled.json").unlink(missing_ok=True))
    settled = _times(command, environment, repeats)
    least = _least(ROWS, environment, repeats, str(results / "results.duckdb"))
    why = f"importing typer, DuckDB, polars and SciPy, and reading the rows as frames, took {least:.2f} s"
    shutil.rmtree(results / "runs")
    alone = _times(command, environment, repeats)
    shutil.rmtree(results)
    records = [
        _record(f"{what}: database alone", 3.0, alone),
        _record(f"{what}: with the runs' folders, nothing new in them", 3.0, settled),
        _record(f"{what}: with the runs' folders, looked through anew", None, looks),
    ]
    return [record | {"why": f"{why} in these minutes"} for record in records]


def _headline(folder: Path, environment: Mapping[str, str], repeats: int) -> Record:
    """Twenty runs at the paper's settings, nothing cached: no facts of classes, no compiled code."""
    seconds = []
    for number in range(repeats):
        _say(f"bench {' '.join(HEADLINE)}: {number + 1} of {repeats}")
        cold = {name: str(folder / f"cold-{number}" / name) for name in ("BENCH_CACHE", "TORCHINDUCTOR_CACHE_DIR")}
        results = folder / f"cold-{number}" / "results"
        seconds.append(_run(["--results", str(results), *HEADLINE], {**environment, **cold}))
        shutil.rmtree(folder / f"cold-{number}")
    return _record(f"`bench {' '.join(HEADLINE)}`, from cold", 15.0, seconds)


def _smoke(folder: Path, task: str, environment: Mapping[str, str], repeats: int) -> list[Record]:
    """Twenty smoke runs of one task: the seconds of the command beyond those of the import of torch beside it.

    Beside them those of the runs by what they were for, and of a run of ten steps, which is hardly more than a start.
    """
    _say(f"twenty smoke runs of {task}")
    beyond, least, parts = [], [], []
    words = ["run", "--sampler", "sgld", "--task", task]
    for number in range(repeats + 1):
        many, one = (folder / f"{name}-{task}-{number}" for name in ("smoke", "started"))
        imported = _run([], environment, IMPORT_TORCH)
        try:
            seconds = _run(["--results", str(many), *words, "--seeds", "0-19", "--budget", "smoke"], environment)
            started = _run(["--results", str(one), *words, "--seeds", "0", "--budget", "steps=10"], environment)
        except subprocess.CalledProcessError as error:
            _say(f"  not measured: {error.stderr.strip().splitlines()[-1]}")
            return []
        if number:  # the first one works out the facts of the classes
            beyond.append(seconds - imported)
            least.append(started - imported)
            parts.append(_seconds(many))
    middle = {name: statistics.median(each[name] for each in parts) for name in parts[0]}
    why = (
        f"a command with one run of ten steps takes {statistics.median(least):.2f} s beyond that import, for its plan, "
        f"other imports and a worker; the twenty runs themselves take {sum(middle.values()):.2f} s on all cores"
    )
    return [{**_record(f"20 smoke runs of {task}, beyond `python -c 'import torch'`", SMOKE_GOAL, beyond),
             "of_each": middle, "why": why}]  # fmt: skip


def _plans(folder: Path, environment: Mapping[str, str]) -> list[Record]:
    """How far `bench plan` is off, after one run with the first width, batch and budget; 1 is exact."""
    base, ratios = folder / "plan", {}
    for number, (width, batch, budget) in enumerate(itertools.product((16, 64), (32, 512), ("smoke", "quick"))):
        _say(f"bench plan of {PLANNED}: width {width}, batch {batch}, {budget}")
        results = folder / f"plan-{number}"
        if number:
            shutil.copytree(base, results)
        words = ["--sampler", "sghmc", "--task", PLANNED, "--seeds", str(number), "--budget", budget, "--set"]
        words = [*words, f"task.width={width}", f"task.batch={batch}"]
        command = [*BENCH, "--results", str(results if number else base), "--json"]
        try:
            told = subprocess.run(
                [*command, "plan", *words], env=dict(environment), capture_output=True, text=True, check=True
            )
            subprocess.run([*command, "run", *words], env=dict(environment), capture_output=True, check=True)
        except subprocess.CalledProcessError as error:
            _say(f"  not measured: {error.stderr[-300:]}")
            return []
        if number:
            (row,) = json.loads(told.stdout)
            result = json.loads(next(results.glob(f"runs/*/{row['run_key']}/*/result.json")).read_text())
            taken = sum(result["seconds"].values())
            ratios[f"width {width}, batch {batch}, {budget} ({taken:.2g} s)"] = row["seconds"] / taken
            _say(f"  {row['seconds']:.2f} s predicted, {taken:.2f} s taken")
    off = [max(ratio, 1 / ratio) for ratio in ratios.values()]
    what = f"`bench plan` of {PLANNED}, other width, batch or budget: predicted over taken, or the other way round"
    return [{**_record(what, 2.0, off, "ratio"), "value": max(off), "of_each": ratios}]


def _unseen(environment: Mapping[str, str], *, quick: bool) -> list[Record]:
    """The same for samplers, tasks and changes on which the model of `bench plan` was not made."""
    ratios = planned.ratios(environment, planned.CASES[:3] if quick else planned.CASES)
    off = [max(ratio, 1 / ratio) for ratio in ratios.values()]
    what = f"`bench plan` of {len(off)} other changes: predicted over taken, or the other way round, the worst"
    return [{**_record(what, planned.GOAL, off, "ratio"), "value": max(off), "of_each": ratios}] if off else []


def _modes(environment: Mapping[str, str], *, quick: bool) -> list[Record]:
    """Whether the mode that a run has by default is the faster one, with its compilation."""
    ratios = chosen.ratios(environment, chosen.CASES[:1] if quick else chosen.CASES)
    what = "whole runs in their default mode over the other mode, compilation included: the worst"
    values = list(ratios.values())
    return [{**_record(what, chosen.GOAL, values, "ratio"), "value": max(values), "of_each": ratios}] if ratios else []


def _seconds(results: Path) -> dict[str, float]:
    """Seconds of all runs by what they were for, over the blocks that were at work side by side."""
    results = [json.loads(path.read_text()) for path in results.glob("runs/*/*/*/result.json")]
    blocks = min(round(sum(1 / result["block_runs"] for result in results)), len(os.sched_getaffinity(0)))
    return {name: sum(result["seconds"][name] for result in results) / blocks for name in results[0]["seconds"]}


def _times(
    words: Sequence[str],
    environment: Mapping[str, str],
    repeats: int,
    before: Callable[[], object] = lambda: None,
) -> list[float]:
    seconds = []
    for _ in range(repeats + 1):
        before()
        seconds.append(_run(words, environment))
    return seconds[1:]


def _least(script: str, environment: Mapping[str, str], repeats: int, *words: str) -> float:
    """The median seconds of a script, which is started once more before."""
    told = [_run(words, environment, [sys.executable, "-c", script]) for _ in range(repeats + 1)]
    return statistics.median(told[1:])


def _run(words: Sequence[str], environment: Mapping[str, str], program: Sequence[str] = BENCH) -> float:
    began = time.perf_counter()
    subprocess.run([*program, *words], env=dict(environment), capture_output=True, text=True, check=True)
    return time.perf_counter() - began


def _measured(words: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Seconds of a command, and its peak memory in MiB."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [*BENCH, *words], env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(words)}: exit status {status}")
    return time.perf_counter() - began, used.ru_maxrss / 1024


def _record(name: str, goal: float | None, values: Sequence[float], unit: str = "s") -> Record:
    return {
        "name": name, "unit": unit, "value": statistics.median(values), "goal": goal,
        "spread": [min(values), max(values)], "repeats": len(values),
    }  # fmt: skip


def _without_database(results: Path) -> None:
    for path in results.glob("results.*"):
        path.unlink()


def _roomy() -> str | None:
    """In memory, where there is room: half a million small files are slow to make on a disk, and slow to remove."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > SPACE else None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - a script


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small trial of all of it")
    quick = parser.parse_args().quick
    print(json.dumps({name: part(quick=quick) for name, part in PARTS.items()}, indent=1))  # noqa: T201 - a script
