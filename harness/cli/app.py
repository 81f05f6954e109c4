"""Puts the verbs together and decides how errors end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import context
from harness.cli.check import check
from harness.cli.data import app as data_app
from harness.cli.doctor import doctor
from harness.cli.ingest import ingest
from harness.cli.ls import ls
from harness.cli.plan import plan
from harness.cli.plugins import plugins
from harness.cli.report import report
from harness.cli.run import run as run_verb
from harness.cli.show import show
from harness.cli.sql import sql
from harness.errors import BenchError, DataError, PluginError

INTERRUPTED = 130
app = typer.Typer(
    name="bench",
    help="Benchmark stochastic-gradient MCMC samplers: same tasks, seeds and budgets, honest intervals.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
VERBS: dict[str, Callable[..., object]] = {
    "run": run_verb, "plan": plan, "ls": ls, "show": show, "report": report, "sql": sql, "ingest": ingest,
    "check": check, "plugins": plugins, "doctor": doctor,
}  # fmt: skip
for name, verb in VERBS.items():
    app.command(name)(verb)
app.add_typer(data_app, name="data")


@app.callback()
def options(
    results: Annotated[
        Path | None, typer.Option("--results", help="Folder of the results; else BENCH_RESULTS, else ./bench-results.")
    ] = None,
    plugin: Annotated[list[str] | None, typer.Option("--plugin", help="A one-off plugin file.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; or BENCH_DEBUG=1.")] = False,
) -> None:
    """Set what all verbs share."""
    folder = results or Path(os.environ.get("BENCH_RESULTS") or "bench-results")
    shown = debug or bool(os.environ.get("BENCH_DEBUG"))
    context.set_current(context.Context(folder.absolute(), tuple(plugin or ()), shown))


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    debug = "--debug" in arguments or bool(os.environ.get("BENCH_DEBUG"))
    try:
        code = app(arguments, standalone_mode=False)
    except BrokenPipeError:
        sys.stdout = sys.__stderr__  # the reader is gone; nothing is left to flush to it
        return 0
    except SystemExit as stop:
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # how typer ends where the reader of a pipe is gone
            return 0
        return _fail(f"a plugin ended the program (exit code {stop.code})", PluginError.exit_code, debug=debug)
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 - the last stop before the user
        return _fail(*_message(error), debug=debug)
    if code == INTERRUPTED:  # typer catches Ctrl-C itself and leaves only its exit code
        return _fail(*_message(KeyboardInterrupt()), debug=False)
    return code if isinstance(code, int) else 0


def _message(error: BaseException) -> tuple[str, int]:
    """What to say of an error, and the exit code."""
    if isinstance(error, BenchError):
        return str(error), error.exit_code
    if hasattr(error, "format_message"):  # a usage error of typer's own
        return f"{error.format_message()}{_where_to_read(error)}", 2
    if isinstance(error, OSError) and error.filename is not None:
        remedy = "make it accessible, or choose another folder by --results DIR"
        return f"{error.filename}: {error.strerror or error}; {remedy}", DataError.exit_code
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return "interrupted; the same command goes on where it stopped", INTERRUPTED
    return f"internal error: {type(error).__name__}: {error}; --debug shows where", 1


def _where_to_read(error: BaseException) -> str:
    """The help page of the command that a usage error is about."""
    place = getattr(getattr(error, "ctx", None), "command_path", "")
    return f" See `{place} --help`." if place else ""


def _fail(message: str, code: int, *, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    print(f"bench: {message}", file=sys.stderr)
    return code
