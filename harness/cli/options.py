"""Options that several verbs share, each declared once."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.reporting.report import Result
from harness.results.spec import MAX_CHAINS
from harness.system.errors import UsageError
from harness.system.text import words

if TYPE_CHECKING:
    from harness.runs.plan import RunRequest

MAX_INT = 10**9
"""Upper limit of a number that has no other limit."""


def completes(*kinds: str, words: Iterable[str] = ()) -> Callable[[typer.Context, str], list[str]]:
    """Return a function for `autocompletion` that completes `words` and the names of plugins of these kinds.

    In a list a,b,c it completes the last name. Neither torch nor the code of a plugin is imported.
    """

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        from harness.contracts.registry import registry

        known = registry(tuple(ctx.find_root().params.get("plugin") or ()))
        before, comma, last = incomplete.rpartition(",")
        names = [*words, *(name for kind in kinds for name in known.names(kind))]
        return [f"{before}{comma}{name}" for name in dict.fromkeys(names) if name.startswith(last)]

    return complete


METHODS = completes("samplers", "methods")
TASKS = completes("tasks")
BUDGETS = completes(words=("smoke", "quick", "paper", "steps=", "passes="))
Samplers = Annotated[list[str], typer.Option("--sampler", help="Samplers or methods, a,b,c.", autocompletion=METHODS)]
Tasks = Annotated[
    list[str], typer.Option("--task", help="Tasks, a,b,c; TASK@PROTOCOL picks a protocol.", autocompletion=TASKS)
]
OnlyTasks = Annotated[
    list[str] | None, typer.Option(help="Only these tasks, a,b,c; also TASK@PROTOCOL.", autocompletion=TASKS)
]
OnlyMethods = Annotated[
    list[str] | None, typer.Option(help="Only these samplers or methods, a,b,c.", autocompletion=METHODS)
]
Budget = Annotated[
    str,
    typer.Option(
        "--budget",
        help="smoke, quick, paper, steps=N or passes=N (through the data).",
        autocompletion=BUDGETS,
    ),
]
Seeds = Annotated[str | None, typer.Option("--seeds", help="Seeds, 0-9 or 0,3,7; default: the protocol's.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Settings, as in sampler.a=5 task.batch=64; `bench show` lists them."
    ),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, max=256, help="Worker processes; default: one per core.")
]
Devices = Annotated[str, typer.Option("--devices", help="cpu, or cuda:0,cuda:1,...")]
AnyDevices = Annotated[
    str,
    typer.Option(
        "--devices",
        help="cpu, or cuda:0,cuda:1,...; auto: every GPU for networks, else the CPU.",
    ),
]
Timeout = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        help="Time limit of runs that advance together, 2h, 30m, 90s or 90; longer ones end with the status timeout.",
    ),
]
MaxRuns = Annotated[
    int,
    typer.Option("--max-runs", min=1, max=MAX_INT, help="Maximum number of runs; a larger plan is refused."),
]


def request(
    sampler: Samplers,
    task: Tasks,
    seeds: Seeds = None,
    chains: Annotated[
        int | None, typer.Option("--chains", min=1, max=MAX_CHAINS, help="Chains per run; default: the protocol's.")
    ] = None,
    budget: Budget = "paper",
    settings: Set = None,
    study: Annotated[
        str,
        typer.Option(
            "--settings", help="Use the settings of this study of `bench tune`; `tuned` is shipped with bench."
        ),
    ] = "",
    sweep: Annotated[
        list[str] | None, typer.Option("--sweep", metavar="KEY=A,B,C", help="Make a run for each value.")
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            "--schedule", help="Schedule to use instead of the default one.", autocompletion=completes("schedules")
        ),
    ] = None,
) -> RunRequest:
    """Return the request for the runs that these options select."""
    from harness.runs.plan import RunRequest, parse_seeds, parse_settings

    texts = [*(settings or []), *([] if schedule is None else [f"schedule={schedule}"])]
    given = parse_settings(texts, "--set")
    swept = {name: values.split(",") for name, values in parse_settings(sweep or [], "--sweep").items()}
    both = sorted(set(given) & set(swept))
    if both:
        raise UsageError(f"{both[0]} is in both --set and --sweep; keep one")
    return RunRequest(
        samplers=some(sampler, "--sampler"),
        tasks=some(task, "--task"),
        seeds=parse_seeds(seeds) if seeds is not None else None,
        chains=chains,
        budget=budget,
        given=given,
        sweep=swept,
        study=study,
    )


def with_request(verb: Callable[..., Result]) -> Callable[..., Result]:
    """Add the options of `request` to a verb, after its `bench`. The verb gets the request in a list, as `asked`.

    From Python, `asked` may be given instead of these options.
    """
    from harness.application.bench import Bench
    from harness.runs.plan import RunRequest

    names = {"RunRequest": RunRequest, "Bench": Bench}
    shared, signature = (inspect.signature(f, locals=names, eval_str=True) for f in (request, verb))
    first, _, *rest = signature.parameters.values()

    @functools.wraps(verb)
    def called(bench: Bench, asked: Sequence[RunRequest] = (), **given: Any) -> Result:
        return verb(bench, asked or [request(**{name: given.pop(name) for name in shared.parameters})], **given)

    parameters = [first, *shared.parameters.values(), *rest]
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def duration(text: str | None, option: str) -> float | None:
    """Return the seconds of "2h", "30m", "90s" or "90". None if no text is given."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([smhd]?)\s*", text)
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}[match[2]] if match else 0.0
    if not seconds:
        raise UsageError(f"{option} {text!r} is not a time above zero and below 10^9, as in 2h, 30m, 90s or 90")
    return seconds


def some(values: list[str], option: str) -> list[str]:
    """Return the names in an option that may be repeated and may list several. `UsageError` if there is none."""
    names = words(values)
    if not names:
        raise UsageError(f"{option} is empty")
    return names
