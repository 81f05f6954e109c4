"""`bench reproduce`: run what the papers' cells and claims need, and print the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from harness import Bench, DataError, PluginError, Result, UsageError, options
from harness.reports import Request, Store
from harness.results import FINAL
from harness.runs import Planned, RunRequest, find_pair, local, parse_seeds, plan
from harness.system import alone, count
from plugins.papers.claims import Setup
from plugins.papers.files import paths, read, sweeps
from plugins.papers.ledger import chosen, not_offered, reproduction, sides
from plugins.papers.report import ReproductionLedger
from plugins.running.absent import absent_data
from plugins.sharing.published import Published

BUDGETS = ("paper", "quick", "smoke")


@dataclass
class PlannedCells:
    """The runs of one task, protocol and number of chains. `left_out` has the reason why a method is not run."""

    planned: list[Planned] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def reproduce(
    bench: Bench,
    paper: Annotated[
        str | None,
        typer.Argument(
            help="A paper: adaptive-drift, bde, csgmcmc, smile ...; default: all.",
            autocompletion=options.completes(words=("adaptive-drift", "bde", "csgmcmc", "smile")),
        ),
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", help="Only these tables: 4, 'Figure 3'; repeat it for several.")
    ] = None,
    budget: Annotated[
        str,
        typer.Option(
            "--budget",
            help="paper; or quick, smoke, listed separately without a verdict.",
            autocompletion=options.BUDGETS,
        ),
    ] = "paper",
    seeds: options.Seeds = None,
    workers: options.Workers = None,
    devices: options.Devices = "cpu",
    retry: Annotated[bool, typer.Option("--retry", help="Run failed runs again.")] = False,
    timeout: options.Timeout = None,
    yes: Annotated[bool, typer.Option("--yes", help="Also run what needs a GPU or takes over a day.")] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Run nothing; add the existing results to this folder, as Parquet."),
    ] = None,
) -> Result:
    """Run what is missing for the papers' tables and claims, then print reported values, ours, and verdicts.

    If a paper's settings are lost, the sweep declared in their place is run too. Runs that need a GPU or take over a
    day are skipped without --yes, and runs whose plugins or data are missing are always skipped; the skipped runs are
    listed with the reason. The same command again runs only what is missing. `bench report reproduction` prints the
    ledger without running anything.

    Examples:
        bench reproduce csgmcmc --table 4
        bench reproduce adaptive-drift --budget quick
    """
    if budget not in BUDGETS:
        raise UsageError(f"--budget {budget!r} is not one of {', '.join(BUDGETS)}")
    limit = options.duration(timeout, "--timeout")
    store = bench.store()
    registry = bench.registry
    files, notes = read(paths(registry))
    for note in notes:
        bench.say(f"note: {note}")
    cells, claims = chosen(registry, files, paper, table or ())
    if export is not None:
        return Result(notes=_export(bench, store, export), changed=True)
    kind, places = bench.places(devices, workers)
    needed = sides(cells, claims)
    fields = _fields(bench, needed, budget, seeds, kind, yes=yes)
    failed = [_execute(bench, name, runs, places, retry, limit, yes=yes) for name, runs in fields.items()]
    ran = any(runs.planned for runs in fields.values())
    report = ReproductionLedger(paper, table or ())
    result = report.build(bench.store() if ran else store, Request(registry=registry))
    return replace(result, notes=(), exit_code=int(any(failed)), changed=True)


def _fields(
    bench: Bench, needed: Mapping[Setup, str], budget: str, seeds: str | None, kind: str, *, yes: bool
) -> dict[str, PlannedCells]:
    """Plan the runs by task, protocol and number of chains, all before anything is run."""
    chosen_seeds = parse_seeds(seeds) if seeds is not None else None
    if chosen_seeds is not None:
        bench.check_size([RunRequest([side.method], [side.task], chosen_seeds) for side in needed])
    absent, registry = absent_data(), bench.registry
    fields: dict[str, PlannedCells] = {}
    for side, needs in needed.items():
        runs = fields.setdefault(_name(side), PlannedCells())
        why = not_offered(registry, side.method, side.task, side.protocol)
        if not why and needs and kind == "cpu" and budget == "paper" and not yes:
            why = f"it needs {needs}; --devices cuda:0, or --yes to run it here anyway"
        if not why:
            try:
                planned = _plan(bench, side, budget, chosen_seeds, kind)
                why = next((reason for p in planned if not p.standing.cached and (reason := absent(p))), "")
            except (UsageError, PluginError, DataError) as error:
                why = str(error)
        if why:
            runs.left_out[side.method] = why
        else:
            runs.planned += planned
    return fields


def _plan(bench: Bench, side: Setup, budget: str, seeds: Sequence[int] | None, kind: str) -> list[Planned]:
    """Return the runs of a side as published and, with the paper's budget, those of its declared sweep."""
    registry, task = bench.registry, f"{side.task}@{side.protocol}"
    asked = RunRequest([side.method], [task], seeds, side.chains, budget, device=kind)
    runs = {run.spec.key: run for run in plan.plan(registry, asked, bench.ledger)}
    stated = find_pair(registry, side.method, task).stated
    for values in sweeps(stated) if stated is not None and budget == "paper" else []:
        try:
            points = plan.plan(registry, replace(asked, sweep=values), bench.ledger)
        except UsageError as error:
            bench.say(f"{_name(side)}: the declared sweep of {side.method} is left out: {error}")
            points = []
        for run in points:
            runs.setdefault(run.spec.key, run)
    return list(runs.values())


def _execute(
    bench: Bench,
    name: str,
    runs: PlannedCells,
    places: Sequence[local.Place],
    retry: bool,
    limit: float | None,
    *,
    yes: bool,
) -> bool:
    """Run what is missing, print what is left out, and return whether a run failed; a divergence is a result."""
    for why, methods in _by_reason(runs.left_out).items():
        bench.say(f"{name}: {', '.join(methods)} left out: {why}")
    if not runs.planned:
        return False
    bench.say(f"{name}: {', '.join(dict.fromkeys(p.spec.method for p in runs.planned))}")
    try:
        outcome = bench.execute(runs.planned, places, retry=retry, long_is_fine=yes, timeout=limit)
    except UsageError as refusal:  # it would take over a day; the other tables are run
        bench.say(f"{name} left out: {refusal}")
        return False
    return bool(outcome.failures) or any(status not in FINAL for status in outcome.statuses.values())


def _by_reason(left_out: Mapping[str, str]) -> dict[str, list[str]]:
    methods: dict[str, list[str]] = {}
    for method, why in left_out.items():
        methods.setdefault(why, []).append(method)
    return methods


def _name(side: Setup) -> str:
    chains = f", {side.chains} chains" if side.chains > 1 else ""
    return f"{side.task}@{side.protocol}{chains}"


def _export(bench: Bench, store: Store, folder: Path) -> list[str]:
    """Add the runs that cells and claims use to a folder of Parquet files; return notes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder} cannot be created: {error.strerror}; choose another --export") from error
    with alone(folder):
        merged = Published(folder, store)
        keys = reproduction(merged, Request(registry=bench.registry)).run_keys
        if not keys:
            raise DataError(
                f"nothing was written to {folder}: no cell or claim uses a run in it or in "
                f"{store.results}; `bench reproduce` does the runs that are needed"
            )
        left_out = len(merged.run_keys() - keys)
        merged.write(keys, folder)
    before = f"note: left out {count(left_out, 'run')} that no cell or claim uses any more"
    done = f"{count(len(keys), 'run')} in {folder}; `nox -s docs` writes docs/reproduction.md from them"
    return [before, done] if left_out else [done]
