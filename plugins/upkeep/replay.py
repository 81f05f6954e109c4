"""`bench replay`: repeat a run and compare the bits; if they differ, show where first, and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from harness import Bench, Result
from harness.application import Progress
from harness.reporting import table
from harness.reports import Table
from harness.results import Status
from plugins.upkeep import replaying as replays
from plugins.upkeep.bitwise import Difference
from plugins.upkeep.lookup import concluded_attempt
from plugins.upkeep.replaying import Replay

COORDINATES = 8
"""Coordinates of a position that are shown."""


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
    asked = replays.request(concluded_attempt(ledger, run), registry, anyway=anyway)
    for change in asked.changes:
        bench.say(f"note: {change}")
    job = bench.job([asked.spec], asked.data, asked.device)
    with Progress(bench, [job]) as progress:

        def listen(kind: str, content: dict[str, Any]) -> None:
            """Show progress only: warnings were shown at the first run, and the result says how it ended."""
            if kind == "progress":
                progress.listen(kind, content)

        replayed = replays.replay(asked, job, listen)
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
