"""`bench compare-on`: samplers compared on the model and the data that a Python file defines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import Bench, Result, UsageError, options
from harness.results import MAX_CHAINS
from plugins.modelling.compare_on import DEFAULT, compare_on
from plugins.reporting.report import report
from plugins.user_file import loaded

TIMES = ("5m", "30m", "1h", "8h")
HINT = "`bench new model` writes an example"
NEEDED = ("model", "train", "test")
TASK = ("likelihood", "prior_precision", "weight_decay", "batch", "unseen", "metrics", "shifts")
RUNS = ("samplers", "budget", "seeds", "chains")
"""What the file defines, and what it may define of the task and of the runs."""


def command(
    bench: Bench,
    file: Annotated[Path, typer.Argument(help="A Python file that defines model, train and test.")],
    sampler: Annotated[
        str | None,
        typer.Option("--sampler", help=f"Samplers a,b,c, or all; default: {DEFAULT}.", autocompletion=options.METHODS),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Time for all of it, 1h or 90s; default: 5m.", autocompletion=options.completes(words=TIMES)),
    ] = None,
    seeds: Annotated[str | None, typer.Option("--seeds", help="Seeds, 0-9 or 0,3,7; default: 0-4.")] = None,
    chains: Annotated[
        int | None, typer.Option("--chains", min=1, max=MAX_CHAINS, help="Chains per run; default: 4.")
    ] = None,
    workers: options.Workers = None,
    devices: options.AnyDevices = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder for the table and the figure.")] = None,
) -> Result | None:
    """Compare samplers on a model and data of your own, within a given time.

    The file defines `model`, a torch module or a function that makes one, and `train` and `test`. It may define
    likelihood, prior_precision or weight_decay, batch, unseen, metrics, shifts, samplers, budget, seeds and chains;
    options take precedence. `bench new model` writes one, and docs/my-model.md explains it.

    Two fifths of the time are a quick search of step sizes: for each sampler ten runs of one chain and one of 4 chains,
    beside 5 seeds of 4 chains. All runs have the same number of data passes, by measured speeds. The same command again
    does only what is missing.

    Examples:
        bench compare-on my_model.py
        bench compare-on my_model.py --sampler sgld,psgld --budget 1h --seeds 0-9 --out figures
    """
    stated = {"samplers": sampler, "budget": budget, "seeds": seeds, "chains": chains}
    asked = {**_defined(file), **{name: value for name, value in stated.items() if value is not None}}
    results = compare_on(bench, **asked, devices=devices, workers=workers, name=file.stem)
    (task,) = set(results.runs["task"])
    if out is not None:
        return report(bench, "best", task=[task], out=out)
    again = f"bench report best --task {task} --plugin {bench.plugins[-1]} --out figures"
    best = results.report("best")
    return replace(best, notes=[*best.notes, f"errors against data passes, as a figure: {again}"], changed=True)


def _defined(file: Path) -> dict[str, Any]:
    """Return what a file defines. `UsageError` if it lacks a name, `PluginError` if it fails."""
    module = loaded(file, HINT)
    if lacks := [name for name in NEEDED if not hasattr(module, name)]:
        raise UsageError(f"{file} does not define {', '.join(lacks)}; {HINT}")
    return {name: getattr(module, name) for name in (*NEEDED, *TASK, *RUNS) if hasattr(module, name)}
