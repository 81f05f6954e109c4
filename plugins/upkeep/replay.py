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

        found = replays.replay(asked, job, listen)
    return Result(_answer(found), [_record(found)], exit_code=int(not found.same))


def _answer(found: Replay) -> list[Table | str]:
    spec, attempt = found.asked.spec, found.asked.attempt
    run = f"run {attempt.path.parent.name[:12]}: {spec.method} on {spec.task.name}, seed {spec.seed}; {_ending(found)}"
    lines = [run, found.trace.rstrip()] if found.trace else [run]
    if found.compared and not found.differences:
        lines.append(f"same bits: {', '.join(found.compared)}")
    rest = [f"not compared: {lack}" for lack in found.missing]
    if found.same and found.environment:
        rest.append(f"although {found.why()[-1]}")
    if not found.differences:
        return ["\n".join([*lines, *rest])]
    lines.append("not the same bits:")
    columns = ["file", "entry", "first at", "kept", "replayed", "differing", "largest difference"]
    rows = [dict(zip(columns, _cells(one), strict=True)) for one in found.differences]
    return ["\n".join(lines), table(rows), "\n".join([*(f"why: {fact}" for fact in found.why()), *rest])]


def _ending(found: Replay) -> str:
    """Return how the replay ended: "done", "diverged at step 120, chain 2, a step before at [1.2e+308, 0.1]"."""
    status = str(found.again["status"])
    if status != Status.DIVERGED:
        return f"{status}: {found.again['reason']}" if found.again.get("reason") else status
    text = f"diverged at step {found.again['step']:,}, chain {found.again['chain']}"
    if found.last_finite is None:
        return text
    more = ", ..." if len(found.last_finite) > COORDINATES else ""
    place = ", ".join(f"{x:.6g}" for x in found.last_finite[:COORDINATES])
    return f"{text}, a step before at [{place}{more}]"


def _cells(one: Difference) -> list[str]:
    share = f"{one.count:,} of {one.total:,}" if one.total > 1 else ""
    largest = "" if one.largest is None else f"{one.largest:.3g}"
    return [one.file, one.entry, one.where, one.stored, one.again, share, largest]


def _record(found: Replay) -> dict[str, Any]:
    first = found.differences[0] if found.differences else None
    names = ("file", "entry", "where", "stored", "again", "count", "total", "largest")
    return {
        "run_key": found.asked.attempt.path.parent.name, "attempt": found.asked.attempt.id, "same": found.same,
        "status": found.again.get("status"), "compared": list(found.compared),
        "missing": list(found.missing), "differences": len(found.differences),
        **{f"first_{name}": getattr(first, name) if first else None for name in names},
        "why": [] if found.same else found.why(), "changes": list(found.asked.changes),
        "environment": [f"{n}: {then} -> {now}" for n, (then, now) in found.environment.items()],
        "damaged": list(found.damaged), "step": found.again.get("step"), "chain": found.again.get("chain"),
        "last_finite": found.last_finite, "traceback": found.trace,
    }  # fmt: skip
