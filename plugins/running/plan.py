"""`bench plan`: show which runs of a command are done, why the others are not, and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from harness import Bench, Result, options
from harness.runs import RunRequest
from harness.runs import plan as planning
from plugins.running.forecast import costs
from plugins.running.request import with_request


@with_request
def plan(
    bench: Bench,
    asked: Sequence[RunRequest],
    workers: options.Workers = None,
    devices: options.AnyDevices = "auto",
    max_runs: options.MaxRuns = planning.MAX_RUNS,
    forecast: Annotated[
        bool,
        typer.Option("--forecast", help="Forecast the joint error of linear samplers on tasks with a truth."),
    ] = False,
) -> Result:
    """Show what `bench run` with the same options would do and what it would cost. Runs nothing.

    With --forecast it says which joint error follows from a sampler's equations, the truth's covariance and the noise
    of gradients, and after how many steps it is .01, the error of 100 exact draws; docs/planning.md.

    Examples:
        bench plan --sampler sgld,csgld --task mixture25 --seeds 0-9 --chains 4
        bench plan --sampler msgld --task cifar10 --seeds 0-4 --devices cuda:0,cuda:1
        bench plan --sampler sgld,sghmc --task gaussian --budget quick --forecast
    """
    return costs(bench, *bench.prepared(asked, devices, workers, max_runs), errors=forecast)
