"""`bench status`: show running workers and their progress, read from the results folder."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

import typer

from harness import Bench, Result
from harness.reporting import table
from harness.reports import render
from harness.results import Status
from harness.system import span
from harness.system.streams import has_colour
from plugins.inspection.overview import COLUMNS, Row, overview

EVERY_SECONDS = 2.0
SILENT_SECONDS = 30.0
JOBS = ("job", "launcher", "status", "host", "why", "runs", "ended", "left", "heard", "since")
TABLE = ("status", "method", "task", "step", "left", "seeds", "steps/s", "worker", "chains", "device", "checkpoint")


def status(
    bench: Bench,
    watch: Annotated[bool, typer.Option("--watch", help="Update it every two seconds until Ctrl-C.")] = False,
) -> Result | None:
    """Show submitted jobs, running workers and their progress, interrupted runs, and the number of runs by status.

    Examples:
        bench status
        bench status --watch
    """
    bench.ledger.check_version()
    settled: dict[str, str] = {}
    if watch and sys.stdout.isatty() and bench.form in {"", "table"}:
        with suppress(KeyboardInterrupt):
            _watch(bench, settled)
        return None
    return _result(bench, settled)


def _watch(bench: Bench, settled: dict[str, str]) -> None:
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False) as live:
        while True:
            colour = has_colour()
            text = render(_result(bench, settled), "table", live.console.width, colour=colour)
            live.update(Text.from_ansi(text, no_wrap=True, overflow="ellipsis"), refresh=True)
            time.sleep(EVERY_SECONDS)


def _result(bench: Bench, settled: dict[str, str]) -> Result:
    rows = overview(bench.ledger, settled)
    submitted, problems = list[Row](), list[str]()
    for jobs in bench.registry.facts("jobs"):
        of_jobs, errors = jobs(bench)
        submitted += [dict.fromkeys(COLUMNS) | row for row in of_jobs]
        problems += errors
    shown = [_shown(row) for row in rows if row["seeds"] is not None or row["status"] == Status.RUNNING]
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["status"]] = totals.get(row["status"], 0) + row["runs"]
    counts = ", ".join(f"{number:,} {name}" for name, number in totals.items()) or "no runs"
    text = f"{counts} in {bench.results}"
    content = [replace(table(shown, TABLE), notes=[text]) if shown else text]
    if submitted:
        lines = [row | {"left": span(row["seconds_left"]), "heard": span(row["heard_age"])} for row in submitted]
        content.insert(0, table(lines, JOBS))
    return Result(content, [dict(row) for row in (*rows, *submitted)], notes=problems)


def _shown(row: Row) -> dict[str, Any]:
    worker = None if row["pid"] is None else f"{row['pid']} on {row['host']}"
    return {
        **{name: row[name] for name in ("status", "method", "chains", "seeds", "device")},
        "task": f"{row['task']}@{row['protocol']}" if row["task"] else None,
        "step": _step(row),
        "steps/s": None if row["rate"] is None else f"{row['rate']:,.0f}",
        "left": span(row["seconds_left"]),
        "checkpoint": None if row["checkpoint_age"] is None else f"{span(row['checkpoint_age'])} ago",
        "worker": worker,
    }


def _step(row: Row) -> str:
    if row["position"] is None or row["steps"] is None:
        return "starting" if row["status"] == Status.RUNNING else ""
    text = f"{row['position']:,} of {row['steps']:,}"
    if row["status"] == Status.RUNNING and row["position"] >= row["steps"]:
        text += ", scoring"
    silent = row["heard_age"] is not None and row["heard_age"] > SILENT_SECONDS
    return f"{text}, {span(row['heard_age'])} ago" if silent else text
