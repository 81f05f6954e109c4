"""Options that several verbs share, each declared once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from harness.system.errors import UsageError
from harness.system.text import words

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
        groups = known.task_groups() if "tasks" in kinds else {}
        names = [*words, *(name for kind in kinds for name in known.names(kind)), *groups]
        return [f"{before}{comma}{name}" for name in dict.fromkeys(names) if name.startswith(last)]

    return complete


METHODS = completes("samplers", "methods")
TASKS = completes("tasks")
BUDGETS = completes(words=("smoke", "quick", "paper", "steps=", "passes="))
Samplers = Annotated[list[str], typer.Option("--sampler", help="Samplers or methods, a,b; all", autocompletion=METHODS)]
Tasks = Annotated[
    list[str],
    typer.Option("--task", help="Tasks or groups, a,b,c; TASK@PROTOCOL picks a protocol.", autocompletion=TASKS),
]
OnlyTasks = Annotated[
    list[str] | None, typer.Option(help="Only these tasks or groups, a,b,c; also TASK@PROTOCOL.", autocompletion=TASKS)
]
OnlyMethods = Annotated[
    list[str] | None, typer.Option(help="Only these samplers or methods, a,b,c.", autocompletion=METHODS)
]
Budget = Annotated[
    str,
    typer.Option(
        "--budget", help="smoke, quick, paper, steps=N or passes=N (through the data).", autocompletion=BUDGETS
    ),
]
Seeds = Annotated[str | None, typer.Option("--seeds", help="Seeds, 0-9 or 0,3,7; default: the protocol's.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Settings, as in sampler.a=5; NAME:sampler.a=5 for one sampler."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, max=256, help="Worker processes; default: SLURM_CPUS_PER_TASK or all cores."),
]
Devices = Annotated[str, typer.Option("--devices", help="cpu, or cuda:0,cuda:1,...")]
AnyDevices = Annotated[
    str, typer.Option("--devices", help="cpu, or cuda:0,cuda:1,...; auto: every GPU for networks, else the CPU.")
]
Timeout = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        help="Time limit of runs that advance together, 2h, 30m, 90s or 90; longer ones end with the status timeout.",
    ),
]
MaxRuns = Annotated[
    int, typer.Option("--max-runs", min=1, max=MAX_INT, help="Maximum number of runs; a larger plan is refused.")
]


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
