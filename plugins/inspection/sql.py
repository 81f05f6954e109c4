"""`bench sql`: query the results database without changing it."""

from __future__ import annotations

from typing import Annotated

import typer

from harness import Bench, Result, options
from harness.reporting import table

MAX_ROWS = 100_000
"""Most rows of an answer without --max-rows. With the 60 columns of `run_metric` they take about 500 MB."""


def sql(
    bench: Bench,
    query: Annotated[str, typer.Argument(help="One query, in DuckDB's SQL; `show tables` lists the tables.")],
    timeout: Annotated[str, typer.Option("--timeout", help="Time limit for the query: 2h, 30m, 90s or 90.")] = "1m",
    max_rows: Annotated[
        int,
        typer.Option(
            "--max-rows", min=1, max=options.MAX_INT, help="Maximum number of rows; a larger answer is refused."
        ),
    ] = MAX_ROWS,
) -> Result:
    """Query the results, read-only: no writing, no files, no extensions. docs/data-dictionary.md describes the tables.

    Examples:
        bench sql "show tables"
        bench sql "select method, seed, value from run_metric where metric = 'modes_covered'"
    """
    seconds = options.duration(timeout, "--timeout")
    columns, values = bench.store().table(query, most=max_rows, seconds=seconds)
    rows = [dict(zip(columns, row, strict=True)) for row in values]
    return Result([table(rows, columns)], rows)
