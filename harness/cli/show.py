"""`bench show`: everything about one run, task, sampler, method or schedule."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from harness.cli import context, results
from harness.cli.options import Json
from harness.cli.sql import plain
from harness.contracts.parameters import near
from harness.contracts.plugin_errors import foreign
from harness.contracts.registry import Registry
from harness.system.errors import UsageError

KINDS = ("task", "sampler", "method", "schedule", "run")
KEY = re.compile(r"[0-9a-fA-F]{6,64}")
SHOWN = 30
"""Rows of a table that a terminal gets; --json has all."""


def show(
    words: Annotated[
        list[str], typer.Argument(metavar="[KIND] NAME", help="A name or a run key (6 digits at least), or KIND NAME.")
    ],
    as_json: Json = False,
) -> None:
    """Show a task, sampler, method, schedule or run: settings with their source, truth, metrics, environment."""
    if len(words) > 2:
        raise UsageError("`bench show` takes a name, or a kind and a name")
    if len(words) == 2 and words[0] not in {*KINDS, *(f"{kind}s" for kind in KINDS)}:
        raise UsageError(f"unknown kind {words[0]!r}{near(words[0], KINDS)}")
    registry = context.plugins()
    kind = words[0].removesuffix("s") if len(words) == 2 else _kind(words[0], registry)
    record = _record(kind, words[-1], registry)
    if as_json:
        context.print_json([plain(record)])
    else:
        _print(record)


def _kind(name: str, registry: Registry) -> str:
    """What a name is the name of."""
    bare = name.rpartition(":")[2]
    kinds = [kind for kind in KINDS[:-1] if any(offer.name == bare for offer in registry.offers(f"{kind}s"))]
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise UsageError(f"{name!r} is a {' and a '.join(kinds)}; say which: bench show {kinds[0]} {name}")
    if KEY.fullmatch(name):
        return "run"
    known = [offer.name for kind in KINDS[:-1] for offer in registry.offers(f"{kind}s")]
    raise UsageError(f"there is no task, sampler, method, schedule or run {name!r}{near(bare, known)}")


def _record(kind: str, name: str, registry: Registry) -> dict[str, Any]:
    from harness.cli.pages import offers, run, sampler, task

    if kind == "run":
        if not KEY.fullmatch(name):
            raise UsageError(f"{name!r} is no run key: give 6 to 64 of its hexadecimal digits")
        store = results.opened()
        return run.run(store, run.key(store, name), registry)
    offer = registry.find(f"{kind}s", name)
    with foreign(f"{kind} {name} ({offer.distribution})"):
        if kind == "task":
            return task.task(offer)
        if kind == "method":
            return offers.method(offer, registry)
        return sampler.sampler(offer, registry) if kind == "sampler" else offers.schedule(offer)


def _print(record: dict[str, Any]) -> None:
    """Single values first, each on its line; then texts and tables, each under its name."""
    single = {name: value for name, value in record.items() if not _is_block(value)}
    width = max(map(len, single))
    for name, value in single.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        if text not in (None, ""):
            context.put(f"{name:<{width}}  {text}")
    for name, value in record.items():
        if value and _is_block(value):
            print(f"\n{name}:")
            _print_block(value)


def _is_block(value: Any) -> bool:
    table = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    return table or isinstance(value, dict) or (isinstance(value, str) and "\n" in value)


def _print_block(value: Any) -> None:
    if isinstance(value, str):
        context.put("\n".join(f"    {line}".rstrip() for line in value.splitlines()))
        return
    if isinstance(value, dict):
        columns = {name: column for name, column in value.items() if _is_column(column)}
        if len({len(column) for column in columns.values()}) > 1:
            columns = {}
        single = {name: x for name, x in value.items() if name not in columns and x is not None}
        width = max(map(len, single), default=0)
        context.put("\n".join(f"{name:<{width}}  {x}" for name, x in [*single.items()][:SHOWN]))
        _more(len(single))
        value = [
            {"i": i, **{name: f"{x:.6g}" for name, x in zip(columns, numbers, strict=True)}}
            for i, numbers in enumerate(zip(*columns.values(), strict=True))
        ]
    if value:
        context.print_rows(value[:SHOWN], list(value[0]))
        _more(len(value))


def _is_column(value: Any) -> bool:
    return isinstance(value, list) and all(type(x) in {int, float} for x in value)


def _more(count: int) -> None:
    if count > SHOWN:
        print(f"... and {count - SHOWN} more; --json has all")
