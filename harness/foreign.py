"""Running the code of plugins: whatever it raises becomes a `PluginError`, and what it prints stays off stdout.

A plugin runs in the same process. One that ends it (`os._exit`, a crash in C) or never returns cannot be held.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from harness.errors import BenchError, PluginError

LONGEST = 500
"""Characters that are told of a message."""


@contextlib.contextmanager
def foreign(what: str) -> Iterator[None]:
    """Run a plugin's code; what it raises becomes a `PluginError` that begins with `what`. Ctrl-C stays Ctrl-C."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (BenchError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: a plugin does not end the command
        raise PluginError(f"{what}: {told(error)}") from error


def told(error: BaseException) -> str:
    """Type and message of an error, on one line and not too long; of one that cannot even say it, the type."""
    try:
        text = " ".join(str(error).split()).encode(errors="replace").decode()
    except BaseException:  # noqa: BLE001 - a plugin's own exception
        text = ""
    name = type(error).__name__
    return f"{name}: {text[:LONGEST]}" if text else name
