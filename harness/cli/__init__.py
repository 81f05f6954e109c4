"""The command `bench`, one file per verb. Nothing here imports torch: code that needs it runs in a worker process."""

from __future__ import annotations

import gc
import os
import sys

from harness.cli.context import COMPLETION
from harness.system.streams import secure

GARBAGE = 50_000
"""New objects after which Python collects garbage. With its default, 700, this takes a twentieth of a short command."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit with its code. This is the entry point of `bench`."""
    gc.set_threshold(GARBAGE)
    secure()
    given = sys.argv[1:] if arguments is None else arguments
    _check_environment(given)
    try:
        from harness.cli.app import run

        code = run(given)
    except KeyboardInterrupt:  # during the import, or a second Ctrl-C, which `run` does not handle
        print("bench: interrupted; repeat the command to resume", file=sys.stderr)
        code = 130
    sys.exit(code)


def _check_environment(arguments: list[str]) -> None:
    """Correct the variables that libraries would use without a check."""
    os.environ["MPLBACKEND"] = "agg"  # a child of a notebook inherits the name of a module that may not be installed
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        if not os.path.isabs(os.environ.get(name, "/")):  # noqa: PTH117 - by their specification it is ignored
            del os.environ[name]
    asked = {"COMP_WORDS", "_TYPER_COMPLETE_ARGS"} & os.environ.keys()
    if arguments and not asked:  # no shell asks for completions; for its script it gives no arguments
        os.environ.pop(COMPLETION, None)
