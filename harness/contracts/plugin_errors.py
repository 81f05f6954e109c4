"""Execution of plugin code: whatever it raises becomes a `PluginError`, and what it prints stays off stdout."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
from collections.abc import Iterator

import harness
from harness.system.errors import BenchError, PluginError

LONGEST = 500
"""Number of characters of a message that are shown."""


@contextlib.contextmanager
def plugin_code(what: str) -> Iterator[None]:
    """Run a plugin's code; what it raises becomes a `PluginError` that begins with `what`. Ctrl-C is passed on."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (BenchError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: a plugin must not end the command
        raise PluginError(f"{what}: {format_error(error)}") from error


def format_error(error: BaseException) -> str:
    """Return type and message of an error on one line, shortened; only the type if the message cannot be computed."""
    try:
        text = " ".join(str(error).split()).encode(errors="replace").decode()[:LONGEST]
        text += _hint(error, text)
    except BaseException:  # noqa: BLE001 - a plugin's own exception
        text = ""
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _hint(error: BaseException, text: str) -> str:
    """Return a hint of what an object or class of the harness offers, if a plugin asked it for something else."""
    asked = getattr(error, "obj", None) if isinstance(error, AttributeError) else None
    if type(asked).__module__.startswith("harness."):
        contracts = (harness.Potential, harness.Noise)  # samplers get several classes that implement them
        kept = next((kind for kind in contracts if type(asked).__name__.endswith(kind.__name__)), type(asked))
        names = {*dir(kept), *getattr(kept, "__annotations__", ())}
        return f"; it has {', '.join(sorted(name for name in names if not name.startswith('_')))}"
    called = re.match(r"(\w+)\.\w+\(\) (?:got|missing|takes) ", text) if isinstance(error, TypeError) else None
    name = called[1] if called else ""
    offered = (getattr(module, name, None) for module in (harness, harness.tasks, harness.reports))
    cls = next((kind for kind in offered if isinstance(kind, type)), None)
    if cls is None:
        return ""
    ways = [cls, *(getattr(cls, name) for name, member in vars(cls).items() if isinstance(member, classmethod))]
    written = [f"{way.__qualname__}({', '.join(inspect.signature(way).parameters)})" for way in ways]
    return f"; write {' or '.join(written)}"
