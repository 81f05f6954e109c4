"""The global options of a command, its plugins and results folder, and functions that print its result."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.contracts import user_files
from harness.system.text import harmless

if TYPE_CHECKING:
    from harness.contracts.registry import Registry
    from harness.reporting.report import Result
    from harness.results.store import Store


@dataclass(frozen=True)
class Launching:
    """The values of --launcher, --set launcher.NAME=VALUE and --detach."""

    launcher: str
    settings: tuple[str, ...] = ()
    detach: bool = False


@dataclass(frozen=True)
class Context:
    """The global options of one command. `form` is the output format, "" if none is given."""

    results: Path
    plugins: tuple[str, ...] = ()
    debug: bool = False
    form: str = ""
    launching: Launching | None = None


_current = Context(Path("bench-results").absolute())


def set_current(context: Context) -> None:
    """Set the context for the rest of this command."""
    global _current  # noqa: PLW0603 - a process has one command and one context
    _current = context
    user_files.FOLDERS[:] = [context.results / user_files.FOLDER]


def current() -> Context:
    """Return the context of this command."""
    return _current


def plugins() -> Registry:
    """Return the registry with the one-off plugins of this command."""
    from harness.contracts.registry import registry

    return registry(_current.plugins)


def store() -> Store:
    """Return the store of this command's results folder, updated with new runs. Problems are printed as notes."""
    from harness.results.ledger.ledger import Ledger
    from harness.results.store import store_of

    Ledger(_current.results).check_version()
    found = store_of(_current.results)
    for note in found.refresh(plugins().papers()):
        say(f"note: {note}")
    return found


def say(message: str) -> None:
    """Print progress or a note to stderr. Results go to stdout."""
    print(harmless(message, "\n\t"), file=sys.stderr, flush=True)


def has_colour() -> bool:
    """Return whether to use colours: not if NO_COLOR is set (https://no-color.org) or the terminal is "dumb"."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def show(result: Result) -> int:
    """Print the result of a verb in the format of this command. Returns the exit code."""
    from harness.contracts.plugin_errors import plugin_code
    from harness.reporting import rendering
    from harness.reporting.report import Result
    from harness.system.errors import PluginError

    if not isinstance(result, Result):
        raise PluginError(f"the verb returned a {type(result).__name__}, not a harness.Result")
    form = _current.form or "table"
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    with plugin_code(f"the result cannot be shown as {form}"):
        text = rendering.render(result, form, width, colour=terminal and has_colour())
    sys.stdout.write(text)
    for note in result.notes:
        say(note)
    return result.exit_code


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 run`, `2 runs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def span(seconds: float | None) -> str:
    """Return a time in one unit: 42 s, 12 min, 3.4 h, 2.1 d. "" for None."""
    if seconds is None:
        return ""
    for unit, length, most in (("s", 1, 100), ("min", 60, 100), ("h", 3600, 48)):
        if seconds < most * length:
            return f"{seconds / length:.{int(unit == 'h')}f} {unit}"
    return f"{seconds / 86_400:.1f} d"
