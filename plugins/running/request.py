"""The options of `bench run` and `bench plan` that say which runs there are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from harness import Bench, Result, UsageError, options
from harness.results import MAX_CHAINS
from harness.runs import RunRequest, parse_seeds, parse_settings


def request(
    sampler: options.Samplers,
    task: options.Tasks,
    seeds: options.Seeds = None,
    chains: Annotated[
        int | None, typer.Option("--chains", min=1, max=MAX_CHAINS, help="Chains per run; default: the protocol's.")
    ] = None,
    budget: options.Budget = "paper",
    settings: options.Set = None,
    study: Annotated[
        str,
        typer.Option(
            "--settings",
            help="Use the settings of this study of `bench tune` (`tuned` is shipped with bench); `one-setting`: "
            "defaults and a rule from the task, without those of papers and authors.",
        ),
    ] = "",
    sweep: Annotated[
        list[str] | None, typer.Option("--sweep", metavar="KEY=A,B,C", help="Make a run for each value.")
    ] = None,
    moved: Annotated[
        bool, typer.Option("--moved", help="Rotate, reflect and shift theta as the seed says: run.moved=true.")
    ] = False,
    schedule: Annotated[
        str | None,
        typer.Option(
            "--schedule",
            help="Schedule to use instead of the default one.",
            autocompletion=options.completes("schedules"),
        ),
    ] = None,
) -> RunRequest:
    """Return the request for the runs that these options select."""
    texts = [*(settings or []), *([] if schedule is None else [f"schedule={schedule}"]), *["run.moved=true"] * moved]
    given = parse_settings(texts, "--set")
    swept = {name: values.split(",") for name, values in parse_settings(sweep or [], "--sweep").items()}
    both = sorted(set(given) & set(swept))
    if both:
        raise UsageError(f"{both[0]} is in both --set and --sweep; keep one")
    return RunRequest(
        samplers=options.some(sampler, "--sampler"),
        tasks=options.some(task, "--task"),
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
    shared, signature = (inspect.signature(function, eval_str=True) for function in (request, verb))
    first, _, *rest = signature.parameters.values()

    @functools.wraps(verb)
    def called(bench: Bench, asked: Sequence[RunRequest] = (), **given: Any) -> Result:
        return verb(bench, asked or [request(**{name: given.pop(name) for name in shared.parameters})], **given)

    parameters = [first, *shared.parameters.values(), *rest]
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called
