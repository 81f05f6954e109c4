"""`bench show`: everything about one run, task, sampler, method or schedule."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from harness.cli import context
from harness.contracts.parameters import suggestions
from harness.contracts.plugin_errors import plugin_code
from harness.contracts.registry import Registry
from harness.reporting.report import Column, Result, Table, table
from harness.system.errors import UsageError

KINDS = ("task", "sampler", "method", "schedule", "run")
KEY = re.compile(r"[0-9a-fA-F]{6,64}")
SHOWN = 30
"""Rows of a table that a terminal gets; --json has all."""


def show(
    words: Annotated[
        list[str], typer.Argument(metavar="[KIND] NAME", help="A name or a run key (6 digits at least), or KIND NAME.")
    ],
) -> Result:
    """Show a task, sampler, method, schedule or run: settings with their source, truth, metrics, environment."""
    if len(words) > 2:
        raise UsageError("`bench show` takes a name, or a kind and a name")
    if len(words) == 2 and words[0] not in {*KINDS, *(f"{kind}s" for kind in KINDS)}:
        raise UsageError(f"unknown kind {words[0]!r}{suggestions(words[0], KINDS)}")
    registry = context.plugins()
    kind = words[0].removesuffix("s") if len(words) == 2 else _kind(words[0], registry)
    record = _record(kind, words[-1], registry)
    return Result(sections(record), [record])


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
    raise UsageError(f"there is no task, sampler, method, schedule or run {name!r}{suggestions(bare, known)}")


def _record(kind: str, name: str, registry: Registry) -> dict[str, Any]:
    from harness.cli.pages import offers, run, task

    if kind == "run":
        if not KEY.fullmatch(name):
            raise UsageError(f"{name!r} is not a run key: give 6 to 64 hexadecimal digits")
        store = context.store()
        return run.run(store, run.key(store, name), registry)
    offer = registry.find(f"{kind}s", name)
    with plugin_code(f"{kind} {name} ({offer.distribution})"):
        if kind == "task":
            return task.task(offer)
        if kind == "method":
            return offers.method(offer, registry)
        return offers.sampler(offer, registry) if kind == "sampler" else offers.schedule(offer)


def sections(record: Mapping[str, Any]) -> list[Table | str]:
    """Single values first, a line each; then texts and tables, each under its name."""
    found: list[Table | str] = [_values({name: value for name, value in record.items() if not _is_block(value)})]
    for name, value in record.items():
        if value and _is_block(value):
            found += _block(name, value)
    return found


def _values(values: Mapping[str, Any], title: str = "") -> Table:
    texts = {name: ", ".join(map(str, x)) if isinstance(x, list) else x for name, x in values.items()}
    rows = [{"name": name, "value": str(text)} for name, text in texts.items() if text not in (None, "")]
    return replace(_first(rows, title), columns=[Column("name", ""), Column("value", "")])


def _first(rows: Sequence[Mapping[str, Any]], title: str) -> Table:
    """The first rows of a table."""
    more = [f"... and {len(rows) - SHOWN} more; --json has all"] if len(rows) > SHOWN else []
    return replace(table(rows[:SHOWN], title=title), notes=more)


def _is_block(value: Any) -> bool:
    rows = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    return rows or isinstance(value, dict) or (isinstance(value, str) and "\n" in value)


def _block(name: str, value: Any) -> list[Table | str]:
    if isinstance(value, str):
        return [f"{name}:\n\n{value}"]
    if isinstance(value, list):
        return [_first(value, f"{name}:")]
    columns = {entry: column for entry, column in value.items() if _is_column(column)}
    if len({len(column) for column in columns.values()}) > 1:
        columns = {}
    single = {entry: x for entry, x in value.items() if entry not in columns}
    rows = [
        {"i": i, **{entry: f"{x:.6g}" for entry, x in zip(columns, numbers, strict=True)}}
        for i, numbers in enumerate(zip(*columns.values(), strict=True))
    ]
    return [_values(single, f"{name}:"), *([_first(rows, "")] if rows else [])]


def _is_column(value: Any) -> bool:
    return isinstance(value, list) and all(type(x) in {int, float} for x in value)
