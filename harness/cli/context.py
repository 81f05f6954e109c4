"""One command: its application, and how its result is printed."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.system.streams import has_colour, say

if TYPE_CHECKING:
    from harness.application.bench import Bench
    from harness.reporting.report import Result

COMPLETION = "_BENCH_COMPLETE"
"""The environment variable by which a shell asks for completions."""


@dataclass
class Command:
    """What `typer.Context.obj` is. The options of `bench` set its application."""

    bench: Bench = field(init=False)

    def show(self, result: Result) -> int:
        """Print the result of a verb in the format of this command. Returns the exit code."""
        from harness.contracts.plugin_errors import plugin_code
        from harness.reporting import rendering
        from harness.reporting.report import Result
        from harness.system.errors import PluginError

        if not isinstance(result, Result):
            raise PluginError(f"the verb returned a {type(result).__name__}, not a harness.Result")
        form = self.bench.form or "table"
        terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if terminal else None
        with plugin_code(f"the result cannot be shown as {form}"):
            text = rendering.render(result, form, width, colour=terminal and has_colour())
        sys.stdout.write(text)
        for note in result.notes:
            say(note)
        return result.exit_code
