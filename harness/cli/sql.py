"""`bench sql`: a query on the results database, which it cannot change."""

from __future__ import annotations

import csv
import math
import sys
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any

import typer

from harness.cli import context, results
from harness.cli.options import MOST, Json, duration
from harness.reporting.rendering.records import cell
from harness.system.errors import UsageError

MOST_ROWS = 100_000
"""Of an answer: with the 60 columns of `run_metric` they take about 500 MB."""


def sql(
    query: Annotated[str, typer.Argument(help="One query, in DuckDB's SQL; `show tables` lists what there is.")],
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV with a header on stdout.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", help="Longest time of the query: 2h, 30m, 90s, 90.")] = "1m",
    max_rows: Annotated[
        int, typer.Option("--max-rows", min=1, max=MOST, help="The most rows of an answer; a larger one is refused.")
    ] = MOST_ROWS,
) -> None:
    """Query the results, read-only: no writing, no files, no extensions. docs/data-dictionary.md says what is where."""
    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other; choose one")
    seconds = duration(timeout, "--timeout")
    columns, rows = results.opened().table(query, most=max_rows, seconds=seconds)
    if as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows(map(cell, row) for row in [columns, *rows])
    elif as_json:
        context.print_json([dict(zip(columns, map(plain, row), strict=True)) for row in rows])
    else:
        context.print_rows([dict(zip(columns, row, strict=True)) for row in rows], columns)


def plain(value: Any) -> Any:
    """A value as JSON has it: no NaN and no infinity, times in ISO 8601, decimals as numbers."""
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    if isinstance(value, dict):
        return {str(name): plain(member) for name, member in value.items()}
    return value
