"""`bench check`: hold samplers, schedules and tasks to their laws."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import context
from harness.cli.classes import loaded
from harness.cli.options import Json, Set
from harness.environment import cores
from harness.errors import PluginError, UsageError
from harness.hookspecs import Method
from harness.parameters import near, schema
from harness.registry import Offer, Registry

if TYPE_CHECKING:
    from harness.conformance.suite import LawResult

KINDS = ("samplers", "schedules", "tasks", "methods")
FEW = 4
"""Names that one process checks: another takes seconds to import torch."""

EXAMPLES = {"float": 0.1, "int": 2}
COLUMNS = ["name", "law", "outcome", "seconds", "message"]


def check(
    name: Annotated[list[str], typer.Argument(help="Samplers, schedules, methods (for both of theirs) or tasks.")],
    settings: Set = None,
    as_json: Json = False,
) -> int:
    """Hold samplers, schedules and tasks, at their defaults or --set, to the laws; exit code 1 where one is broken."""
    from harness.execution.plan import parse_settings

    words = list(dict.fromkeys(name))
    given = parse_settings(settings or [], "--set")
    # What is wrong with a name or a setting is said before anything is checked.
    kinds = {kind[:-1] for word in words for kind, _ in _made(context.plugins(), word, given)}
    idle = sorted(key for key in given if key.partition(".")[0] not in kinds)
    if idle:
        raise UsageError(
            f"--set {idle[0]}: nothing of that kind is checked; settings begin with {' or '.join(sorted(kinds))} here"
        )
    context.say(f"checking {', '.join(words)}")
    found = _shared(words, given)
    rows = [row for word in words for row in found[word]]
    if as_json:
        context.print_json(rows)
    else:
        context.print_rows(rows, COLUMNS)
    return int(any(row["outcome"] == "failed" for row in rows))


def _shared(words: list[str], given: dict[str, str]) -> dict[str, list[Row]]:
    """The rows of each name: few here, many in a process for each core."""
    if len(words) < FEW:
        return _rows(words, given)
    parts = [part for k in range(cores()) if (part := words[k :: cores()])]
    with ProcessPoolExecutor(
        len(parts), multiprocessing.get_context("spawn"), context.set_current, (context.current(),)
    ) as pool:
        try:
            return dict(item for rows in pool.map(partial(_rows, given=given), parts) for item in rows.items())
        except BrokenProcessPool as error:
            raise PluginError(
                f"a process that checked ended without a word; check {', '.join(words)} one by one"
            ) from error


def _rows(words: list[str], given: dict[str, str]) -> dict[str, list[Row]]:
    made = {word: _made(context.plugins(), word, given) for word in words}
    return {
        word: [{"name": word, "kind": kind[:-1]} | vars(result) for kind, results in parts for result in results]
        for word, parts in _results(made).items()
    }


Row = dict[str, Any]
Made = list[tuple[str, Any]]
"""The kind and the object of everything that a name stands for."""


def _results(made: dict[str, Made]) -> dict[str, list[tuple[str, list[LawResult]]]]:
    """The results of each name; all samplers together, since they share the fresh process of the restore law."""
    import torch

    from harness.conformance.suite import check_samplers, check_schedule, check_task

    torch.set_num_threads(1)
    samplers = [thing for parts in made.values() for kind, thing in parts if kind == "samplers"]
    held = iter(check_samplers(samplers) if samplers else [])
    other: dict[str, Callable[[Any], list[LawResult]]] = {"schedules": check_schedule, "tasks": check_task}
    return {
        word: [(kind, next(held) if kind == "samplers" else other[kind](thing)) for kind, thing in parts]
        for word, parts in made.items()
    }


def _made(registry: Registry, name: str, given: Mapping[str, Any]) -> Made:
    """The sampler, schedule or task of that name; of a method, its sampler and its schedule: with what is given."""
    bare = name.rpartition(":")[2]
    for kind in KINDS:
        if any(offer.name == bare for offer in registry.offers(kind)):
            offer = registry.find(kind, name)
            if not isinstance(offer.info, Method):
                return [(kind, _at_defaults(offer, _of(given, kind)))]
            parts = [("samplers", offer.info.sampler), ("schedules", offer.info.schedule)]
            return [
                (
                    kind,
                    _at_defaults(
                        registry.find(kind, part, prefer=offer.distribution),
                        _of({**offer.info.settings, **given}, kind),
                    ),
                )
                for kind, part in parts
                if part
            ]
    known = [offer.name for kind in KINDS for offer in registry.offers(kind)]
    raise UsageError(f"unknown sampler, schedule, method or task {name!r}{near(bare, known)}")


def _of(settings: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The settings of a sampler, schedule or task, by field."""
    prefix = f"{kind[:-1]}."
    return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}


def _at_defaults(offer: Offer, settings: dict[str, Any]) -> Any:
    """The object at its defaults and these settings; a schedule's numbers without a default are made up."""
    cls = loaded(offer)
    fields = [field.name for field in schema(cls)]
    unknown = next((name for name in settings if name not in fields), None)
    if unknown is not None:
        raise UsageError(f"{offer.name} has no setting {unknown!r}{near(unknown, fields)}")
    required = [field for field in schema(cls) if field.required and field.name not in settings]
    if offer.kind == "schedules":
        settings = {**{field.name: EXAMPLES[field.type] for field in required if field.type in EXAMPLES}, **settings}
        required = [field for field in required if field.name not in settings]
    if required:
        raise UsageError(
            f"{offer.name} has no default for {', '.join(field.name for field in required)}; check an object of it in "
            f"a test, with harness.conformance.suite.check_{offer.kind[:-1]}"
        )
    return cls(**settings)
