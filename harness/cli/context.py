"""What all verbs share: where the results are, which one-off plugins are loaded, whether to show tracebacks."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.system.text import harmless

if TYPE_CHECKING:
    from harness.contracts.registry import Registry


@dataclass(frozen=True)
class Context:
    """The global options of one command."""

    results: Path
    plugins: tuple[str, ...] = ()
    debug: bool = False


WIDEST = 300
"""Characters of a cell; --json has all."""
_current = Context(Path("bench-results").absolute())


def set_current(context: Context) -> None:
    """Fix the context for the rest of this command."""
    global _current  # noqa: PLW0603 - one command, one context
    _current = context


def current() -> Context:
    """The context of this command."""
    return _current


def plugins() -> Registry:
    """The registry, with the one-off plugins of this command."""
    from harness.contracts.registry import registry

    return registry(_current.plugins)


def say(message: str) -> None:
    """Progress and notes go to stderr; results go to stdout."""
    print(harmless(message, "\n\t"), file=sys.stderr, flush=True)


def put(text: str) -> None:
    """Lines of a result, on stdout."""
    print(harmless(text, "\n\t"))


def count(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """A list of flat objects; no NaN, which JSON does not have."""
    print(json.dumps(list(rows), indent=1, allow_nan=False, default=str))


def _cell(value: Any) -> str:
    """A value on one line, and cut where one row would make all others too wide to read."""
    text = "" if value is None else harmless(str(value).replace("\n", " ").replace("\t", " "))
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."


def print_rows(rows: list[dict[str, Any]], columns: list[str]) -> None:
    """Aligned columns, for a terminal or a pipe."""
    print("\n".join(aligned(rows, columns)))


def aligned(rows: list[dict[str, Any]], columns: list[str]) -> list[str]:
    """The lines of a table: the names of its columns, then a line a row."""
    lines = [[*map(_cell, columns)], *([_cell(row.get(c)) for c in columns] for row in rows)]
    widths = [max(len(text) for text in column) for column in zip(*lines, strict=True)]
    return ["  ".join(t.ljust(width) for t, width in zip(line, widths, strict=True)).rstrip() for line in lines]
