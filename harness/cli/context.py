"""What all verbs share: where the results are, which one-off plugins are loaded, whether to show tracebacks."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.registry import Registry, registry


@dataclass(frozen=True)
class Context:
    """The global options of one command."""

    results: Path
    plugins: tuple[str, ...] = ()
    debug: bool = False


_CONTROL = ("Cc", "Cf", "Cs")
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
    return registry(_current.plugins)


def say(message: str) -> None:
    """Progress and notes go to stderr; results go to stdout."""
    print(message, file=sys.stderr, flush=True)


def count(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """A list of flat objects; no NaN, which JSON does not have."""
    print(json.dumps(list(rows), indent=1, allow_nan=False, default=str))


def _harmless(text: str) -> str:
    """On one line and without control sequences: a plugin's words must not steer a terminal."""
    return "".join(" " if c in "\n\t" else c for c in text if c in "\n\t" or unicodedata.category(c) not in _CONTROL)


def print_rows(rows: list[dict[str, Any]], columns: list[str]) -> None:
    """Aligned columns, for a terminal or a pipe."""
    cells = [["" if row.get(c) is None else _harmless(str(row[c])) for c in columns] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(columns, *cells, strict=True)]
    for line in [columns, *cells]:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
