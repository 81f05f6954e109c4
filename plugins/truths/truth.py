"""`bench truth`: the moments of a task's target by long HMC, stored for the metrics of its runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from harness import Bench, Result, RunError, UsageError, options
from harness.contracts import user_files
from harness.reporting import table
from harness.runs import RunRequest, call, expand, parse_settings, truths
from harness.system import sealed, write_json
from harness.tasks import Reference

LARGEST = 1000
"""Most coordinates of a target: their draws take half a gigabyte, and the record 20 MB."""
SHOWN = 20
COLUMNS = ["coordinate", "mean", "error of the mean", "sd", "error of the sd"]
FUNCTION_COLUMNS = ["function", *COLUMNS[1:], "R-hat"]


def truth(
    bench: Bench,
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="A task without a truth; TASK@PROTOCOL for its settings.",
            autocompletion=options.TASKS,
        ),
    ],
    settings: options.Set = None,
    draws: Annotated[int, typer.Option("--draws", min=100, max=100_000, help="Draws of each of the 16 chains.")] = 4000,
) -> Result:
    """Compute the truth of a task by long HMC and store it in the results folder; no run key changes.

    Later runs of the task use it; `bench rescore` brings finished ones up to date. If the effective size is below
    10,000, up to as many draws again follow. Nothing is stored, with exit code 1, if it still is, or if the chains do
    not agree (R-hat above 1.01, acceptance outside of 0.5 to 0.98).
    Of a task with functions (predictions of a network) it is a reference in function space; with 50 parameters or
    fewer, it is compared with parallel tempering. It is stored even if it fails its acceptance rule; then it is not
    used, and the exit code is 1.

    Examples:
        bench truth my-task
        bench truth my-task --set task.scale=2 --draws 8000
    """
    registry, given = bench.registry, parse_settings(settings or [], "--set")
    if other := [name for name in given if not name.startswith("task.")]:
        raise UsageError(f"{other[0]}: only settings of the task, task.NAME, matter for its truth")
    hmc = {"schedule": "constant", "schedule.step_size": "1", "run.burn_in": "0", "run.compile": "plain"}
    ((resolved, (spec,)),) = expand(registry, RunRequest(["hmc"], [task], [0], 1, f"steps={draws}", {**hmc, **given}))
    facts = resolved.task
    if facts.dim > LARGEST:
        raise UsageError(f"{spec.task.name} has {facts.dim:,} coordinates; a truth is computed of {LARGEST} at most")
    ledger = bench.ledger
    ledger.check_version()
    path, record = truths.file_of(bench.results, spec), truths.read(bench.results, spec)
    note = f"stored before in {path}; delete it to compute it again"
    if record is None:
        ledger.prepare()
        for file in spec.files():
            user_files.keep(file, bench.results / user_files.FOLDER)
        job = bench.job([spec], facts.datasets)
        moments = call("plugins.truths.computing:compute", job, draws, listen=lambda _, sent: bench.say(sent["text"]))
        record = sealed({"task": spec.task.name, "params": dict(spec.task.params), **moments})
        path.parent.mkdir(exist_ok=True)
        write_json(path, record)
        note = f"stored in {path}; `bench rescore --task {spec.task.name}` applies it to finished runs"
    if truths.FUNCTIONS in record:
        reference = Reference.of_record(record)
        if reference.refused:
            raise RunError(f"the reference in {path} is not used: {reference.refused}; delete it to compute it again")
        return Result(
            [_accepted(record, reference), table(_functions(record)[:SHOWN], FUNCTION_COLUMNS)],
            [{**record, "path": str(path)}],
            notes=[note],
            changed=True,
        )
    return Result(
        [_quality(record), table(_rows(record)[:SHOWN], COLUMNS)],
        [{**record, "path": str(path)}],
        notes=[note],
        changed=True,
    )


def _quality(record: dict[str, Any]) -> str:
    return (
        f"{record['chains']} chains of {record['draws']} draws: R-hat {record['rhat']:.4f}, effective size "
        f"{min(record['ess_z'], record['ess_z2']):,.0f} or more, acceptance {record['acceptance']:.2f} "
        f"(least {record['acceptance_worst_chain']:.2f})"
    )


def _accepted(record: dict[str, Any], reference: Reference) -> str:
    text = (
        f"{record['chains']} chains of {record['draws']} draws: largest R-hat {max(record['rhat']):.3f}, "
        f"acceptance {record['acceptance']:.2f} (least {record['acceptance_worst_chain']:.2f}); "
        f"reference: {reference.kind}"
    )
    other = reference.tempering
    if other is None:
        return text
    swaps = f"{min(other.swap_acceptance):.2f} to {max(other.swap_acceptance):.2f} of the swaps accepted"
    verdict = f"cannot decide: {other.unfit}" if other.unfit else "agrees"
    return f"{text}\nparallel tempering {verdict} ({swaps}, {other.round_trips} round trips)"


def _functions(record: dict[str, Any]) -> list[dict[str, Any]]:
    columns = zip(*(record[name] for name in ("mean", "mean_error", "sd", "sd_error", "rhat")), strict=True)
    return [
        {"function": i, **dict(zip(FUNCTION_COLUMNS[1:], (f"{value:.6g}" for value in values), strict=True))}
        for i, values in enumerate(columns)
    ]


def _rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    sd = [row[-1] ** 0.5 for row in record["covariance"]]
    columns = zip(record["mean"], record["mean_mcse"], sd, record["sd_mcse"], strict=True)
    return [
        {"coordinate": i, **dict(zip(COLUMNS[1:], (f"{value:.6g}" for value in values), strict=True))}
        for i, values in enumerate(columns)
    ]
