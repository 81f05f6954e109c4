"""`bench check`: hold samplers and tasks to their laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import context
from harness.cli.classes import loaded
from harness.cli.options import Json
from harness.errors import UsageError
from harness.hookspecs import Method
from harness.parameters import near, schema
from harness.registry import Offer, Registry

if TYPE_CHECKING:
    from harness.conformance.suite import LawResult

COLUMNS = ["name", "law", "outcome", "seconds", "message"]


def check(
    name: Annotated[list[str], typer.Argument(help="Samplers, methods (for their sampler) or tasks.")],
    as_json: Json = False,
) -> int:
    """Hold samplers and tasks, at their defaults, to the laws; exit code 1 where one is broken."""
    offers = [_find(context.plugins(), word) for word in dict.fromkeys(name)]
    made = {offer.name: (offer.kind, _at_defaults(offer)) for offer in offers}
    rows = [
        {"name": word, "kind": made[word][0][:-1]} | vars(result)
        for word, results in _results(made).items()
        for result in results
    ]
    if as_json:
        context.print_json(rows)
    else:
        context.print_rows(rows, COLUMNS)
    return int(any(row["outcome"] == "failed" for row in rows))


def _results(made: dict[str, tuple[str, Any]]) -> dict[str, list[LawResult]]:
    """The results of each name; all samplers together, since they share the fresh process of the restore law."""
    import torch

    from harness.conformance.suite import check_samplers, check_task

    torch.set_num_threads(1)
    context.say(f"checking {', '.join(made)}")
    samplers = {word: thing for word, (kind, thing) in made.items() if kind == "samplers"}
    results = dict(zip(samplers, check_samplers(list(samplers.values())), strict=True)) if samplers else {}
    return {word: results[word] if word in results else check_task(thing) for word, (_, thing) in made.items()}


def _find(registry: Registry, name: str) -> Offer:
    """The sampler or task of that name; of a method, its sampler."""
    bare = name.rpartition(":")[2]
    for kind in ("samplers", "tasks", "methods"):
        if any(offer.name == bare for offer in registry.offers(kind)):
            offer = registry.find(kind, name)
            return registry.find("samplers", offer.info.sampler) if isinstance(offer.info, Method) else offer
    known = [offer.name for kind in ("samplers", "tasks", "methods") for offer in registry.offers(kind)]
    raise UsageError(f"unknown sampler or task {name!r}{near(bare, known)}")


def _at_defaults(offer: Offer) -> Any:
    cls = loaded(offer)
    required = [field.name for field in schema(cls) if field.required]
    if required:
        raise UsageError(
            f"{offer.name} has no default for {', '.join(required)}; check an object of it in a test, with "
            f"harness.conformance.suite.check_{offer.kind[:-1]}"
        )
    return cls()
