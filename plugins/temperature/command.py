"""`bench temperature`: what the training loops and optimisers of a Python file sample."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import Bench, Result, UsageError
from harness.reports import Column, Table
from plugins.temperature.measure import LENGTH, Loop, Run, runs_of
from plugins.temperature.slips import Finding, find
from plugins.user_file import loaded

if TYPE_CHECKING:
    from types import ModuleType

HINT = "docs/temperature.md has an example"


def temperature(
    bench: Bench, file: Annotated[Path, typer.Argument(help="A Python file with `train` or a torch optimiser.")]
) -> Result:
    """Measure what a torch optimiser or a training loop samples: the temperature, the prior, and the usual slip.

    The file defines a generator `train(model, data, lr)`, or several whose names begin with train, that yields after
    each step, or a subclass of torch.optim.Optimizer. They run on linear regressions, whose posterior is known, at
    several N, n and lr. The exit code is 1 if one of the loops does not sample exp(-U/T) at the T that it is asked for.

    Examples:
        bench temperature my_loop.py
        bench temperature my_optimiser.py --json
    """
    module = loaded(file, HINT)
    stated = getattr(module, "prior_precision", None)
    tables, records, right = [], [], []
    for name, loop in _loops(module, file).items():
        bench.say(f"{name}: four or five runs on linear regressions")
        pilot, runs = runs_of(loop, f"{file.name}: {name}", LENGTH)
        finding = find(pilot, runs, stated)
        right.append(finding.right)
        tables += [_conclusion(name, finding, stated), _runs(name, runs)]
        records.append(_record(name, finding))
    optimiser = not hasattr(module, "train") and len(right) > 1
    failed = not any(right) if optimiser else not all(right)
    return Result(tables, records, exit_code=int(failed))


def _loops(module: ModuleType, file: Path) -> dict[str, Loop]:
    """Return the loops of a file by name: its generators, or two with its optimiser, on a mean and on a summed loss."""
    import torch

    functions = {name: value for name, value in vars(module).items() if inspect.isfunction(value)}
    if loops := {name: value for name, value in functions.items() if name.startswith("train")}:
        return dict(loops)
    classes = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, torch.optim.Optimizer) and value.__module__ == module.__name__
    }
    if not classes:
        raise UsageError(f"{file} defines no function train and no subclass of torch.optim.Optimizer; {HINT}")
    return {
        f"{name} on the {kind} loss": _with(optimiser, summed=kind == "summed")
        for name, optimiser in classes.items()
        for kind in ("summed", "mean")
    }


def _with(optimiser: Callable[..., Any], *, summed: bool) -> Loop:
    """Return the loop that trains by an optimiser, on minus the log-likelihood, its sum or its mean over the rows."""

    def train(model: Any, data: Any, lr: float) -> Iterator[None]:
        steps = optimiser(model.parameters(), lr=lr)
        while True:
            for x, y in data:
                steps.zero_grad()
                loss = (model(x) - y).square().mean() / 2
                (loss * len(data.dataset) if summed else loss).backward()
                steps.step()
                yield

    return train


def _conclusion(name: str, finding: Finding, stated: float | None) -> Table:
    target = "T" if finding.temperature.asked else "1"
    one = finding.uniform and not finding.shared and not finding.silent
    rows = [
        {"what": "temperature", "law": str(finding.temperature) if one else "not one temperature", "meant": target},
        {
            "what": "step over lr",
            "law": f"{finding.gradient} x grad U" if one else "",
            "meant": "any, if the temperature is right",
        },
        {
            "what": "precision of the prior",
            "law": str(finding.prior or "no prior"),
            "meant": "" if stated is None else f"{stated:g}",
        },
    ]
    value, error = finding.measured
    says = f"T = {finding.temperature} ({value:.3g} +- {2 * error:.2g} in the first run)"
    if finding.right:
        title = f"{name} samples exp(-U/T) at the right temperature, T = {finding.temperature}"
    elif one:
        title = f"{name} samples exp(-U/T) at {says}"
    else:
        title = f"{name} does not sample exp(-U/T)"
    notes = [f"the usual cause: {finding.cause}"] if finding.cause else []
    notes += [finding.about_prior] if finding.about_prior else []
    if not finding.right and not notes:
        notes = ["no usual slip has these numbers; `bench check` tests a sampler law by law"]
    columns = [Column("what", ""), Column("law", "measured"), Column("meant", "should be")]
    return Table(title, columns, rows, notes)


def _runs(name: str, runs: list[Run]) -> Table:
    rows = [
        {
            "terms": run.terms, "batch": run.batch, "lr": run.lr, "asked": run.asked, "prior": run.prior.value,
            "temperature": run.temperature.value, "error": 2 * run.temperature.error, "slope": run.slope.value,
        }
        for run in runs
    ]  # fmt: skip
    columns = [
        Column("terms", "N", "right"), Column("batch", "n", "right"), Column("lr", "lr", "right", ".3g"),
        *([Column("asked", "asked", "right", ".3g")] if runs[0].asked else []),
        Column("temperature", "T", "right", ".3g"), Column("error", "+-", "right", ".2g"),
        Column("prior", "prior precision", "right", ".3g"), Column("slope", "slope", "right", ".2f"),
    ]  # fmt: skip
    return Table(f"{name}: runs", columns, rows, ["slope: of log T against log curvature, 0 for exp(-U/T)"])


def _record(name: str, finding: Finding) -> Mapping[str, Any]:
    prior = finding.prior
    return {
        "loop": name, "right": finding.right, "temperature": str(finding.temperature),
        "temperature_measured": finding.measured.value, "temperature_error": finding.measured.error,
        "gradient": str(finding.gradient), "prior_precision": str(prior) if prior else None, "uniform": finding.uniform,
        "shared_noise": finding.shared, "adds_noise": not finding.silent, "momentum": 1 - 1 / finding.momentum,
        "cause": finding.cause, "about_prior": finding.about_prior,
    }  # fmt: skip
