"""A verb as a stranger would ship it."""

from typing import Annotated

import typer

from harness import Result
from harness.reports import Column, Table


def halves(
    step_size: Annotated[float, typer.Argument(help="The first.")],
    count: Annotated[int, typer.Option(min=1, max=100, help="How many.")] = 2,
) -> Result:
    """Print step sizes, each half of the one before; exit code 1 where the first is not positive."""
    rows = [{"i": i, "step_size": step_size / 2**i} for i in range(count)]
    columns = [Column("i", "i"), Column("step_size", "h", "right", ".3g")]
    return Result([Table("Halves", columns, rows)], rows, notes=["made outside"], exit_code=int(step_size <= 0))
