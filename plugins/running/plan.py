"""`bench plan`: show which runs of a command are done, why the others are not, and their cost."""

from __future__ import annotations

from collections.abc import Sequence

from harness import Bench, Result, options
from harness.runs import MAX_RUNS, RunRequest
from plugins.running.forecast import forecast
from plugins.running.request import with_request


@with_request
def plan(
    bench: Bench,
    asked: Sequence[RunRequest],
    workers: options.Workers = None,
    devices: options.AnyDevices = "auto",
    max_runs: options.MaxRuns = MAX_RUNS,
) -> Result:
    """Show what `bench run` with the same options would do and what it would cost. Runs nothing.

    Examples:
        bench plan --sampler sgld,csgld --task mixture25 --seeds 0-9 --chains 4
        bench plan --sampler hmc --task blr-heart --budget quick --json
        bench plan --sampler msgld --task cifar10 --seeds 0-4 --devices cuda:0,cuda:1
    """
    return forecast(bench, *bench.prepared(asked, devices, workers, max_runs))
