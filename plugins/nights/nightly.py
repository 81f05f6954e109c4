"""`bench nightly`: run the missing runs of a suite, publish its reports, and report what became worse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness import Bench, Result, RunError, UsageError, options
from harness.results import Ledger, Status
from harness.runs import plan
from harness.system import count, locks
from plugins.checking import outcomes
from plugins.nights.late import LateRow, separated
from plugins.nights.regression.conclusion import conclude
from plugins.nights.regression.observe import SuiteCommand, members
from plugins.nights.site.folder import check_folder
from plugins.nights.suite import Suite, about, complete, find
from plugins.running.absent import absent_data

LOCK_TIMEOUT_SECONDS = 5.0


def nightly(
    bench: Bench,
    suite: Annotated[
        str,
        typer.Argument(
            help="A suite's name (`bench ls suites`), or a file, my.toml.", autocompletion=options.completes("suites")
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the pages.")],
    workers: options.Workers = None,
    devices: options.Devices = "cpu",
    timeout: options.Timeout = None,
    max_runs: options.MaxRuns = plan.MAX_RUNS,
    accept: Annotated[bool, typer.Option("--accept", help="Make these numbers the reference.")] = False,
) -> Result:
    """Run the missing runs of a suite, write its pages, and compare with the last accepted night, paired by seed.

    Stdout has what changed, once. The laws are run once at the settings of its rows, and rows that fail them have no
    rank. Exit code 5 if a row became worse, else 1 if a run failed or diverged. Runs that failed before are run again.
    After an interruption the same command finishes the work.

    Examples:
        bench nightly smoke --out pages
        bench nightly my-suite.toml --out pages --timeout 2h
    """
    limit = options.duration(timeout, "--timeout")
    chosen, left_out = complete(find(bench.registry, suite), bench.registry, bench.results)
    for name in chosen.reports or ():
        bench.registry.find("reports", name)
    check_folder(out, chosen.name)
    kind, places = bench.places(devices, workers)
    chosen = replace(chosen, entries=tuple(replace(entry, device=kind) for entry in chosen.entries))
    ledger = bench.ledger
    bench.check_size(chosen.entries, max_runs)
    entries, late = _entries(bench, chosen, ledger, max_runs)
    ledger.prepare()
    with _locked(ledger.root / "nights", chosen.name):
        wanted = {p.spec.key: p for entry in entries for p in entry.planned if p.spec.key not in entry.skipped}
        outcome = bench.execute(list(wanted.values()), places, retry=True, long_is_fine=True, timeout=limit)
        if outcome.detached:
            return Result()
        entries = [replace(e, planned=[outcome.instead.get(p.spec.key, p) for p in e.planned]) for e in entries]
        wanted = {run.spec.key: run for key, p in wanted.items() for run in (outcome.instead.get(key, p),)}
        standings = [p.standing if p.standing.cached else ledger.standing(key) for key, p in wanted.items()]
        held = [
            {"sampler": p.spec.sampler.name, "sampler_source": p.spec.sampler.source, "sampler_params": params}
            for p in wanted.values()
            for params in [json.dumps(dict(p.spec.sampler.params))]
        ]
        outcomes.make(bench.results, bench.registry, bench.plugins, outcomes.held_in(held))
        open_runs = sum(not (standing.cached or standing.failed) for standing in standings)
        failed = any(standing.status != Status.DONE for standing in standings)
        ended = outcome.exit_code or int(failed)
        return conclude(bench, chosen, entries, left_out, late, out, open_runs=open_runs, accept=accept, ended=ended)


def _entries(bench: Bench, chosen: Suite, ledger: Ledger, most: int) -> tuple[list[SuiteCommand], list[LateRow]]:
    """Plan all commands of a suite before anything is run; an error names the command."""
    absent = absent_data()
    planned = []
    for number, request in zip(chosen.numbers, chosen.entries, strict=True):
        with about(chosen, number):
            planned.append(SuiteCommand(number, request, plan.plan(bench.registry, request, ledger)))
    commands, late = separated(bench, chosen, planned)
    if late and (total := sum(len(one.planned) for one in commands)) > most:
        raise UsageError(
            f"with rows on seeds of their own, and reference samplers on these, this asks for {total:,} runs, and a "
            f"command plans at most {most:,}; raise the limit by --max-runs {total}"
        )
    for one in late:
        if one.missing:
            bench.say(f"added after results of the season: {one.row}: {one}; {count(one.missing, 'run')}")
    for i, command in enumerate(commands):
        skipped = {p.spec.key: why for p in command.planned if not p.standing.cached and (why := absent(p))}
        commands[i] = replace(command, skipped=skipped)
        for reason in dict.fromkeys(skipped.values()):
            bench.say(f"left out of run {command.number}: {reason}")
    members(commands)  # rows that could not be told apart after the runs are refused before them
    return commands, late


@contextmanager
def _locked(folder: Path, name: str) -> Iterator[None]:
    """Lock the suite: otherwise a second command would compare and publish runs that the first is still doing.

    Raise `RunError` if it is locked.
    """
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.lock"
    try:
        with locks.lock_file(path, LOCK_TIMEOUT_SECONDS):
            yield
    except locks.HeldError as error:
        raise RunError(
            f"suite {name} is being run by {locks.holder(path)}; wait until it has finished, then repeat the command"
        ) from error
