"""`bench export`: write finished runs as Parquet files, to commit them or put them on any static host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import Bench, Result
from harness.system import count
from plugins.sharing.exporting import export as write


def export(
    bench: Bench,
    out: Annotated[Path, typer.Option("--out", help="The folder; what it has is kept, what is new is added.")],
) -> Result:
    """Write the finished runs of this results folder (--results) as Parquet files, without their draws.

    All commands that read results read the folder: bench --results DIR report leaderboard. Its files are named by
    their content: after some more runs the same command adds files and leaves the others alone.

    Examples:
        bench export --out published
        bench export --out ../our-repository/results
    """
    fresh, written, kept = write(bench.store(), out)
    done = f"{count(fresh, 'attempt')} exported to {out}: {written} shards written, {kept} left as they were"
    return Result(notes=[done], changed=True)
