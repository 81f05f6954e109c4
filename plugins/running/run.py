"""`bench run`: execute the missing runs of a command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import Bench, Result, options
from harness.reports import Records
from harness.results import Ledger, Status
from harness.runs import Planned, RunRequest, local, plan
from plugins.running.request import with_request


@with_request
def run(
    bench: Bench,
    asked: Sequence[RunRequest],
    workers: options.Workers = None,
    devices: options.AnyDevices = "auto",
    draws: Annotated[
        str,
        typer.Option("--draws", help="Draws kept on disk: all, none, or some (64 MiB per run, none for networks)."),
    ] = "some",
    retry: Annotated[bool, typer.Option("--retry", help="Run failed runs again.")] = False,
    timeout: options.Timeout = None,
    preemptible: Annotated[
        bool, typer.Option("--preemptible", help="Exit with 0 if a scheduler stops this command (SIGTERM).")
    ] = False,
    max_runs: options.MaxRuns = plan.MAX_RUNS,
    yes: Annotated[bool, typer.Option("--yes", help="Run even if it takes over a day.")] = False,
) -> Result:
    """Run samplers on tasks. The same command again runs only what is missing; more seeds run only the new ones.

    Examples:
        bench run --sampler sgld,csgld --task mixture25 --seeds 0-9 --chains 4
        bench run --sampler hmc --task blr-heart --budget quick
        bench run --sampler sgld --task mixture5 --sweep schedule.step_size=0.01,0.1
    """
    limit = options.duration(timeout, "--timeout")
    planned, places = bench.prepared(asked, devices, workers, max_runs)
    try:
        outcome = bench.execute(planned, places, retry=retry, long_is_fine=yes, timeout=limit, draws=draws)
    except local.PreemptedError:
        if not preemptible:
            raise
        return Result(notes=["ended by SIGTERM; repeat the command to resume"])
    ledger = bench.ledger
    if outcome.detached:
        return Result(records=Records(lambda: _rows(planned, ledger)), changed=True)
    planned = [outcome.instead.get(p.spec.key, p) for p in planned]
    rows = Records(lambda: _rows(planned, ledger))
    standings = [p.standing if p.standing.cached else ledger.standing(p.spec.key) for p in planned]
    failed = any(standing.status != Status.DONE for standing in standings)
    done = any(standing.status == Status.DONE for standing in standings)
    notes = [_next(bench, planned)] if done else []
    return Result(records=rows, notes=notes, exit_code=outcome.exit_code or int(failed), changed=True)


def _next(bench: Bench, planned: Sequence[Planned]) -> str:
    """Return the command that shows who is better on these tasks."""
    default = Path(os.environ.get("BENCH_RESULTS") or "bench-results").absolute()
    where = "" if bench.results == default else f"--results {shlex.quote(str(bench.results))} "
    tasks = ",".join(dict.fromkeys(item.spec.task.name for item in planned))
    return f"next: bench {where}report leaderboard --task {tasks}"


def _rows(planned: Sequence[Planned], ledger: Ledger) -> list[dict[str, Any]]:
    ended = [replace(item, standing=ledger.standing(item.spec.key)) for item in planned]
    return [
        item.record()
        | {"reason": item.standing.reason or None, "attempt": item.standing.attempt and item.standing.attempt.id}
        for item in ended
    ]
