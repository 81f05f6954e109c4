"""`bench status`: workers, interrupted runs, and the number of the other runs, from the files of a results folder."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import Bench, Result
from harness.reporting import table
from harness.reports import render
from harness.results import FINAL, KEY, Attempt, Ledger, Status, ranges
from harness.system import locks, read_json, span
from harness.system.streams import has_colour

Row = dict[str, Any]
COLUMNS = (
    "status", "method", "task", "protocol", "budget", "chains", "seeds", "runs", "position", "steps", "rate",
    "seconds_left", "checkpoint_age", "heard_age", "device", "host", "pid", "since", "job", "launcher", "why", "ended",
)  # fmt: skip
"""The columns of a row. Over all rows, `runs` counts every run once. Ages and remaining times are in seconds, `rate` is
in steps per second, and `heard_age` is the time since the worker's last message. Only submitted jobs have a job, its
launcher, the reason why it waits, and the number of its runs that have ended. None: not known, or not applicable.
"""

EVERY_SECONDS = 2.0
SILENT_SECONDS = 30.0
JOBS = ("job", "launcher", "status", "host", "why", "runs", "ended", "left", "heard", "since")
TABLE = ("status", "method", "task", "step", "left", "seeds", "steps/s", "worker", "chains", "device", "checkpoint")


@dataclass(frozen=True)
class _Worker:
    """A process that holds locks on runs: who it is, since when (ISO 8601), which runs, and its notice if any."""

    host: str | None = None
    pid: int | None = None
    since: str | None = None
    keys: list[str] = field(default_factory=list)
    notice: dict[str, Any] = field(default_factory=dict)


def overview(ledger: Ledger, settled: dict[str, str]) -> list[Row]:
    """Return a row for each worker, for each group of interrupted runs, and for each status of the other runs.

    Interrupted runs of a group differ only in seed. `settled` keeps the statuses of finished runs between calls.
    """
    at_work = _workers(ledger.locks)
    busy = {key for worker in at_work for key in worker.keys}
    totals: Counter[str] = Counter()
    interrupted: dict[tuple[Any, ...], list[tuple[Row, int]]] = {}
    for key in ledger.all_keys():
        if key in busy or key in settled:
            continue
        standing = ledger.standing(key)
        if standing.status in FINAL:
            settled[key] = standing.status
        elif standing.failed or standing.attempt is None:
            totals[standing.status] += 1
        else:
            row, seed = _interrupted_row(standing.status, standing.attempt)
            interrupted.setdefault((standing.status, *(row[name] for name in COLUMNS[1:6]), row["steps"]), []).append(
                (row, seed)
            )
    totals.update(status for key, status in settled.items() if key not in busy)
    totals.pop(Status.NEW, None)
    return [
        *(_worker_row(ledger, worker) for worker in at_work),
        *(_merged(members) for _, members in sorted(interrupted.items(), key=lambda item: str(item[0]))),
        *({**dict.fromkeys(COLUMNS), "status": s, "runs": number} for s, number in sorted(totals.items())),
    ]


def _workers(folder: Path) -> list[_Worker]:
    """Return the workers of a results folder, from the locks in `folder` that are held now; the oldest first."""
    workers: dict[tuple[Any, ...], _Worker] = {}
    for path in sorted(folder.glob("*.lock")):
        if not KEY.fullmatch(path.stem) or not locks.held(path):
            continue
        holder = read_json(path) or {}
        notice = read_json(path.with_suffix(".notice")) or {}
        host, pid, since = holder.get("host"), holder.get("pid"), holder.get("since")
        known = isinstance(host, str) and isinstance(pid, int) and isinstance(since, str)
        # If the lock has no text, as on a full disk, each run counts as a worker of its own.
        worker = workers.setdefault(
            (host, pid) if known else (path,), _Worker(host, pid, since) if known else _Worker()
        )
        worker.keys.append(path.stem)
        if known and (notice.get("host"), notice.get("pid")) == (host, pid):
            worker.notice.update(notice)
    return sorted(workers.values(), key=lambda worker: worker.since or "")


def _worker_row(ledger: Ledger, worker: _Worker) -> Row:
    notice = worker.notice
    position, steps, rate = _number(notice, "position"), _number(notice, "steps"), _number(notice, "rate")
    moment = _number(notice, "time")
    left = max(0.0, steps - position) / rate if rate and position is not None and steps is not None else None
    return dict.fromkeys(COLUMNS) | {
        "status": Status.RUNNING, **_labels(notice), "seeds": _text(notice, "seeds"), "runs": len(worker.keys),
        "position": position, "steps": steps, "rate": rate, "seconds_left": left,
        "checkpoint_age": _checkpoint_age(ledger.root / str(notice["attempt"])) if "attempt" in notice else None,
        "heard_age": None if moment is None else max(0.0, time.time() - moment),
        "device": _text(notice, "device"), "host": worker.host, "pid": worker.pid, "since": worker.since,
    }  # fmt: skip


def _interrupted_row(status: str, attempt: Attempt) -> tuple[Row, int]:
    spec = read_json(attempt.path / "spec.json") or {}
    task = spec.get("task")
    labels = _labels({**spec, "task": task.get("name") if isinstance(task, dict) else None})
    positions = [_number(event, "position") for event in reversed(attempt.events())]
    row = dict.fromkeys(COLUMNS) | {"status": status, **labels, "steps": _number(spec, "steps")}
    row["position"] = next((position for position in positions if position is not None), 0)
    row["checkpoint_age"] = _checkpoint_age(attempt.path)
    return row, int(_number(spec, "seed") or 0)


def _merged(members: list[tuple[Row, int]]) -> Row:
    """Return the runs of a group as one row: the least position among them, and the age of the oldest checkpoint."""
    rows = [row for row, _ in members]
    ages = [row["checkpoint_age"] for row in rows if row["checkpoint_age"] is not None]
    return rows[0] | {
        "seeds": ranges(seed for _, seed in members),
        "runs": len(rows),
        "position": min(row["position"] for row in rows),
        "checkpoint_age": max(ages, default=None),
    }


def _labels(record: Mapping[str, Any]) -> Row:
    texts = {name: _text(record, name) for name in ("method", "task", "protocol", "budget")}
    return texts | {"chains": _number(record, "chains")}


def _checkpoint_age(folder: Path) -> float | None:
    try:
        return max(0.0, time.time() - (folder / "checkpoint.safetensors").stat().st_mtime)
    except (OSError, ValueError):
        return None


def _text(record: Mapping[str, Any], name: str) -> str | None:
    value = record.get(name)
    return value if isinstance(value, str) else None


def _number(record: Mapping[str, Any], name: str) -> Any:
    value = record.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18 else None


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
    content: list[Any] = [replace(table(shown, TABLE), notes=[text]) if shown else text]
    if submitted and not totals:  # the runs of the jobs have no attempts here yet
        content = []
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
