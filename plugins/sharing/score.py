"""`bench score`: a row of draws or predictions that other software made."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import Bench, Result, UsageError, options
from harness.contracts import name_problem, user_files
from harness.contracts.parameters import LONGEST_VALUE
from harness.reporting import table
from harness.reports import Store, Table
from harness.results import ELSEWHERE, Component
from harness.results.spec import Origin
from harness.runs import RunRequest, call, expand, parse_seeds, parse_settings

SOURCE = hashlib.sha256(b"made elsewhere").hexdigest()
STEPS = {"schedule": "constant", "schedule.step_size": "1", "run.burn_in": "0", "run.compile": "plain"}


def score(
    bench: Bench,
    task: Annotated[
        str,
        typer.Argument(metavar="TASK", help="The task; TASK@PROTOCOL for its settings.", autocompletion=options.TASKS),
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .npz, .safetensors or .parquet file; see above.")],
    name: Annotated[str, typer.Option("--name", help="What the method is called.")],
    passes: Annotated[
        float, typer.Option("--passes", min=0, max=1e12, help="Gradients of a chain, warm-up included, in data passes.")
    ],
    seed: Annotated[int, typer.Option("--seed", min=0, max=options.MAX_INT - 1, help="Seed of the run.")],
    warmup: Annotated[
        float, typer.Option("--warmup", min=0, max=1e12, help="Data passes before the first draw.")
    ] = 0.0,
    about: Annotated[
        str, typer.Option("--about", help="Software and settings, in words; another text makes another row.")
    ] = "",
    settings: options.Set = None,
) -> Result:
    """Score draws or predictions that other software made, as a row in tables of their own.

    The file holds the array draws (chain, draw, coordinate), with more draws than chains, and, if they are weighted,
    log_weights (chain, draw), which are normalised in each chain; or
    probabilities (test row, class), the posterior mean, optionally with rows (the number of each prediction's test row,
    from 0) and classes (the true classes, which are compared with the task's); cifar10@hmc needs one of these two. A
    Parquet file has the columns chain, draw, log_weight and one for each coordinate; or one for each class, optionally
    with row and class. Cost and seed are what you declare: such rows are in tables of the protocol "elsewhere", are
    never ranked with runs of the harness, and cannot be replayed.

    Examples:
        bench score mixture25 draws.npz --name my-sampler --passes 6000 --warmup 1000 --seed 0
        bench score notmnist predictions.npz --name my-sampler --passes 200 --seed 0
    """
    from plugins.sharing.submission import TARGET, Declared, read

    if problem := name_problem(name):
        raise UsageError(f"--name {problem}")
    if len(about) > LONGEST_VALUE:
        raise UsageError(f"--about has {len(about):,} characters; at most {LONGEST_VALUE:,} are allowed")
    if warmup > passes:
        raise UsageError(f"--warmup {warmup:g} is more than --passes {passes:g}, which includes it")
    given = parse_settings(settings or [], "--set")
    if other := [key for key in given if not key.startswith("task.")]:
        raise UsageError(f"{other[0]}: only settings of the task, task.NAME, can be given; --about is for the others")
    submission = read(file)
    steps, chains = (1, 1) if submission.draws is None else submission.draws.shape[:2]
    registry = bench.registry
    asked = RunRequest(["hmc"], [task], parse_seeds(str(seed)), chains, f"steps={steps}", {**STEPS, **given})
    ((resolved, (plain,)),) = expand(registry, asked)
    origins = {key: origin for key, origin in plain.origins.items() if key.startswith("task.")}
    origins |= {"sampler.declared": Origin(about, "reported", "declared with the draws")}
    spec = replace(
        plain,
        method=name,
        sampler=Component(name=name, target=TARGET, source=SOURCE, params={"declared": about}),
        protocol=ELSEWHERE,
        budget=f"passes={passes:g}",
        origins=origins,
    )
    ledger = bench.ledger
    ledger.check_version()
    ledger.prepare()
    for identified in spec.files():
        user_files.keep(identified, bench.results / user_files.FOLDER)
    job = bench.job([spec], resolved.task.datasets)
    declared = Declared(file.absolute(), passes, warmup)
    attempt = call("plugins.sharing.elsewhere:measure", job, declared, listen=lambda *_: None)
    return Result(*_answer(bench.store(), attempt), notes=[f"{file}: {submission.shape}"], changed=True)


def _answer(store: Store, attempt: str) -> tuple[list[Table], list[dict[str, Any]]]:
    rows = store.rows("select name as metric, value, unit from metric where attempt = $1 order by rowid", [attempt])
    shown = table(rows, ["metric", "value", "unit"])
    columns = [replace(column, format=".6g") if column.key == "value" else column for column in shown.columns]
    return [replace(shown, columns=columns)], [{"attempt": attempt, **row} for row in rows]
