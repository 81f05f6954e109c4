"""`bench merge`: the union of results folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import Bench, DataError, Result
from harness.reporting import table
from harness.system import count, harmless
from plugins.sharing.merging import Merged
from plugins.sharing.merging import merge as union

SHOWN = 8
COLUMNS = ["run", "method", "task", "seed", "metric", "value", "value_other", "counts", "other"]


def merge(
    bench: Bench,
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Results folders.")],
    own_results: Annotated[bool, typer.Option("--own", help="They are mine, from other machines: they rank.")] = False,
) -> Result:
    """Copy the attempts of other results folders into this one (--results), each after a check of its checksums.

    An attempt that is here already is not copied again, so an interrupted merge is finished by the same command. Runs
    whose finished attempts have different numbers are listed; all attempts stay, and one that was made here counts.
    Copied results are "reported", without a rank beside rows that were run here, unless --own says that they are yours.
    Exit code 4 if something was refused, else 1 if numbers differ.

    Examples:
        bench merge ../theirs/bench-results
        bench merge --own part-1/bench-results part-2/bench-results
    """
    ledger = bench.ledger
    ledger.prepare()
    merged = Merged(own_results=own_results)
    for folder in folders:
        try:
            union(folder, ledger, merged)
        except DataError as error:
            if str(error).startswith(str(ledger.root)):
                raise
            merged.refused.append((harmless(str(folder))[:200], str(error)))
    rows = [{"run": row["run_key"][:12], **row} for row in merged.conflicts.values()]
    shown = [
        {**row, "other": f"{row['other']}{'' if row['same_environment'] else ' (another environment)'}"} for row in rows
    ]
    return Result(
        [table(shown, COLUMNS, title="Runs whose finished attempts differ")] if rows else [],
        [{"kind": "differs", **row} for row in rows]
        + [{"kind": "refused", "place": where, "why": why} for where, why in merged.refused],
        notes=_notes(merged),
        exit_code=4 if merged.refused else int(bool(rows)),
        changed=True,
    )


def _notes(merged: Merged) -> list[str]:
    notes = [f"refused: {where}: {why}" for where, why in merged.refused]
    running = merged.running[:SHOWN]
    more = f" and {len(merged.running) - SHOWN} more" if len(merged.running) > SHOWN else ""
    notes += [f"note: a worker writes to {', '.join(running)}{more}, left out; merge again later"] if running else []
    if merged.unfinished:
        notes.append(f"note: {count(merged.unfinished, 'unfinished attempt')} left out; --own copies those of yours")
    done = f"{count(merged.copied, 'attempt')} copied, {merged.completed} completed, {merged.present} already here"
    return [*notes, f"{done}, {len(merged.refused)} refused"]
