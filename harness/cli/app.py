"""Collect the verbs and turn errors into exit codes. A verb's module is imported only when the verb is used."""

from __future__ import annotations

import errno
import functools
import inspect
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from harness.application.application import Launching, results_folder
from harness.application.bench import Bench
from harness.cli.context import COMPLETION, Command
from harness.cli.options import completes
from harness.contracts.offers import HARNESS
from harness.system.device_errors import chain, lacks_memory
from harness.system.errors import BenchError, DataError, PluginError, RunError, UsageError, why
from harness.system.files import user_path
from harness.system.memory import memory_limit
from harness.system.streams import say, unwritten

INTERRUPTED = 130
CONTEXT = "command_context"
"""The parameter by which typer gives a verb its context; the verb itself gets the application."""
LONGEST = 2000
"""Most characters of a message, which may quote user input. The middle of a longer message is cut out."""
EVERYWHERE = (
    "With every command: --results DIR, --plugin FILE, --format table|json|csv|markdown|latex|html, --json, --csv, "
    "--debug; where it makes runs, also --launcher NAME, --detach and --set launcher.NAME=VALUE; see `bench --help`."
)
GIB_TO_READ = 2
"""Least address space of a command in GiB. Commands that read results need 1.4, measured on two cores; with less,
DuckDB and polars abort the process.
"""


class Verbs(typer.core.TyperGroup):
    """The group of all verbs: it lists each with its line of help, and imports only the verb that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the verbs."""
        return [*_offered(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb by name, with only its line of help, or None if there is no verb of that name."""
        from harness.contracts.registry import registry

        line = _offered(ctx).get(cmd_name)
        if line is None:
            known = registry(_files(ctx))
            if known.left_out and not ctx.resilient_parsing:
                raise known.unknown("no such command", cmd_name, _offered(ctx))
            self.commands = dict.fromkeys(self.list_commands(ctx), self)  # typer searches this for near matches
            return None
        return typer.core.TyperCommand(cmd_name, short_help=line)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the verb in the arguments, and import it. Typer calls this."""
        name, command, rest = super().resolve_command(ctx, args)
        if name == "run" and not ctx.resilient_parsing and "--help" not in args:
            _expect_runs(ctx)
        if command is not None:
            command = _command(name or "", _files(ctx))
        return name, command, rest


def _expect_runs(ctx: Any) -> None:
    """Start the import of torch, the slowest part of a run, if it is certainly needed because there is no run yet."""
    if not ctx.params.get("launcher") and not (results_folder(ctx.params.get("results")) / "runs").is_dir():
        from harness.runs.children import start_early

        start_early()


def _files(ctx: Any) -> tuple[str, ...]:
    return tuple(ctx.params.get("plugin") or ())


def _offered(ctx: Any) -> dict[str, str]:
    """Return the verbs with their lines of help. Report each problem once."""
    from harness.contracts.registry import registry

    known = registry(_files(ctx))
    if not ctx.meta.get("harness.plugins"):
        ctx.meta["harness.plugins"] = True
        for plugin in known.plugins:
            if plugin.problems and not plugin.offers:
                say(f"note: plugin {plugin.name} ({plugin.distribution}) is left out: {plugin.problems[0]}")
    return {offer.name: offer.info.summary for offer in known.offers("verbs")}


def _command(name: str, files: tuple[str, ...]) -> Any:
    from harness.contracts.plugin_errors import plugin_code
    from harness.contracts.registry import load, registry

    verb = load(registry(files).find("verbs", name).target)
    group = verb if isinstance(verb, typer.Typer) else _app()
    with plugin_code(f"verb {name}"):
        for registered in group.registered_commands:
            if registered.callback is not None and CONTEXT not in registered.callback.__annotations__:
                registered.callback = _as_command(registered.callback)
        if group is not verb:
            group.command(name)(_as_command(verb))
        command = typer.main.get_command(group)
    for one in (command, *getattr(command, "commands", {}).values()):
        _prepare_help(one)
    return command


def _as_command(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Return a verb as typer calls it. It gets the application if it has a parameter `bench`, and paths of users."""

    def replaced(value: Any) -> Any:
        if isinstance(value, list):
            return [replaced(one) for one in value]
        return user_path(value) if isinstance(value, Path) else value

    signature = inspect.signature(verb, eval_str=True)
    wants_bench = "bench" in signature.parameters
    parameters = [parameter for name, parameter in signature.parameters.items() if name != "bench"]
    asked = [parameter.name for parameter in parameters if parameter.annotation is typer.Context]

    @functools.wraps(verb)
    def called(**given: Any) -> Any:
        context = given[asked[0]] if asked else given.pop(CONTEXT)
        given = {name: replaced(value) for name, value in given.items()}
        return verb(**given, bench=context.obj.bench) if wants_bench else verb(**given)

    if not asked:
        parameters.append(inspect.Parameter(CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _prepare_help(command: Any) -> None:
    """Show the examples of a command's docstring below its options, and give the options' values readable names."""
    text, _, examples = (command.help or "").partition("Examples:\n")
    command.help = text.rstrip()
    command.epilog = "\n\n".join([*([f"\b\nExamples:\n{examples.rstrip()}"] if examples else []), EVERYWHERE])
    for parameter in command.params:
        label = getattr(parameter, "type_descriptor", None)  # typer before 0.29 has none, but its names are readable
        if label and parameter.param_type_name == "option" and parameter.metavar is None and not parameter.is_flag:
            parameter.metavar = (
                "NAMES" if label.is_list else "N" if label.is_ranged else "PATH" if label.is_path else "TEXT"
            )


def _app(*, add_completion: bool = False, **options: Any) -> typer.Typer:
    return typer.Typer(add_completion=add_completion, rich_markup_mode=None, pretty_exceptions_enable=False, **options)


app = _app(
    name="bench",
    add_completion=True,
    help="Benchmark stochastic-gradient MCMC samplers on the same tasks, seeds and budgets.",
    epilog="""\b
Examples:
    bench run --sampler sgld,psgld --task mixture5,blr-heart --budget quick
    bench report leaderboard
    bench show sgld""",
    no_args_is_help=True,
    cls=Verbs,
)


def _version(asked: bool) -> None:
    if asked:
        from harness.results.environment import version
        from harness.results.provenance import digest

        bench, torch = (version(name) or "not installed" for name in (HARNESS, "torch"))
        source = (digest(HARNESS) or "")[:12]
        typer.echo(f"bench {bench} (source {source}), Python {platform.python_version()}, torch {torch}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    results: Annotated[
        str | None,
        typer.Option("--results", metavar="DIR", help="Results folder; default: BENCH_RESULTS, else ./bench-results."),
    ] = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin",
            metavar="FILE",
            help="Load a plugin file.",
            is_eager=True,
            callback=lambda files: [str(user_path(file)) for file in files or ()],
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Output format: table (default), json, csv, markdown, latex or html.",
            autocompletion=lambda: ["table", "json", "csv", "markdown", "latex", "html"],
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json: a list of objects.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Short for --format csv.")] = False,
    launcher: Annotated[
        str,
        typer.Option(
            "--launcher",
            metavar="NAME",
            help="Submit runs as jobs; `bench ls launchers` lists names and settings. Or a TOML file with them.",
            autocompletion=completes("launchers"),
        ),
    ] = "",
    launcher_setting: Annotated[list[str] | None, typer.Option("--launcher-setting", hidden=True)] = None,
    detach: Annotated[bool, typer.Option("--detach", help="With --launcher: submit the jobs and do not wait.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks (or set BENCH_DEBUG=1).")] = False,
    version: Annotated[  # noqa: ARG001 - its callback prints it
        bool,
        typer.Option(
            "--version",
            help="Show the versions of bench, with a digest of its source, Python and torch.",
            is_eager=True,
            callback=_version,
        ),
    ] = False,
) -> None:
    """Set the options that all verbs share."""
    if limit := memory_limit(GIB_TO_READ):
        raise RunError(f"too little memory for `bench {ctx.invoked_subcommand}`; {limit}")
    shown = debug or bool(os.environ.get("BENCH_DEBUG"))
    asked = {"--json": "json"} if as_json else {}
    asked |= {"--csv": "csv"} if as_csv else {}
    asked |= {f"--format {form}": _format(form)} if form else {}
    if len(set(asked.values())) > 1:
        raise UsageError(f"{' and '.join(asked)} exclude each other; choose one")
    chosen = next(iter(asked.values()), "")
    if not launcher and (detach or launcher_setting):
        raise UsageError("--detach and --set launcher.NAME=VALUE go with --launcher NAME")
    how = Launching(launcher, tuple(launcher_setting or ()), detach) if launcher else None
    ctx.obj.bench = Bench(results, plugins=plugin or (), launching=how, debug=shown, form=chosen)


def _format(name: str) -> str:
    from harness.reporting.rendering import check_format

    return check_format(name)


@functools.cache
def _root() -> Any:
    """Return the group of all verbs, which typer would build anew for each command: 5 ms."""
    return typer.main.get_command(app)


@functools.cache
def global_options() -> dict[str, bool]:
    """Return the options of `bench` itself, which may stand anywhere in a command, and whether each takes a value."""
    return {name: not one.is_flag for one in _root().params for name in one.opts}


def front(arguments: list[str]) -> list[str]:
    """Move the global options, such as --results in `bench run ... --results DIR`, to the front.

    `--set launcher.X=V` is a global option too.
    """
    takes_value = global_options()
    leading: list[str] = []
    rest: list[str] = []
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        if word == "--":
            rest += [word, *queue]
            break
        if word == "--set" and queue and queue[0].startswith("launcher."):
            word = f"--launcher-setting={queue.pop(0).removeprefix('launcher.')}"
        name, equals, _ = word.partition("=")
        if name in takes_value:
            leading.append(word)
            if takes_value[name] and not equals and queue:
                leading.append(queue.pop(0))
        else:
            rest.append(word)
    return leading + rest


def repeat(arguments: list[str]) -> list[str]:
    """Let --set and --sweep take several words: `--set a=1 b=2` becomes `--set a=1 --set b=2`."""
    expanded: list[str] = []
    option = ""
    for word in arguments:
        if option and expanded[-1] != option and "=" in word and not word.startswith("-"):
            expanded.append(option)
        elif word.startswith("-") or (option and expanded[-1] != option):
            option = word if word in ("--set", "--sweep") else ""
        expanded.append(word)
    return expanded


def run(arguments: list[str]) -> int:
    """Run a command, print its result and return its exit code."""
    debug = "--debug" in arguments or bool(os.environ.get("BENCH_DEBUG"))
    answer, command = None, Command()
    try:
        answer = _root()(front(repeat(arguments)), standalone_mode=False, obj=command)
        code = answer if isinstance(answer, int) else 0 if answer is None else command.show(answer)
    except SystemExit as stop:
        if isinstance(stop.__context__, OSError):  # typer ends the program at a broken pipe, whoever wrote to it
            return _fail(*_message(stop.__context__), debug=debug)
        code = stop.code if isinstance(stop.code, int) else 0
        if COMPLETION not in os.environ and not any(word.endswith("-completion") for word in arguments):
            return _fail(f"a plugin ended the program (exit code {stop.code})", PluginError.exit_code, debug=debug)
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 - any error becomes a message to the user
        return _fail(*_message(error), debug=debug)
    if code == INTERRUPTED:  # typer catches Ctrl-C and returns only an exit code
        return _fail(*_message(KeyboardInterrupt()), debug=False)
    lost = unwritten()
    if lost and (lost.errno != errno.EPIPE or getattr(answer, "changed", False)):  # as `bench ls runs | head` ends
        return _fail(f"the result could not be written to stdout: {lost.strerror or lost}", code or 1, debug=False)
    return code


def _message(error: BaseException) -> tuple[str, int]:
    if type(error).__name__ == "Abort" or any(isinstance(cause, KeyboardInterrupt) for cause in chain(error)):
        return "interrupted; repeat the command to resume", INTERRUPTED  # in `__set_name__` it becomes a RuntimeError
    if isinstance(error, BenchError):
        return str(error), error.exit_code
    if hasattr(error, "format_message"):  # a usage error of typer's own
        return f"{error.format_message()}{_help_hint(error)}", 2
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {why(error)}", DataError.exit_code
    if lacks_memory(error) or type(error).__name__ == "OutOfMemoryException":  # the latter is DuckDB's
        return f"not enough memory; {memory_limit() or 'end other programs, or use a larger machine'}", 1
    return f"internal error: {type(error).__name__}: {error}; --debug shows where", 1


def _help_hint(error: BaseException) -> str:
    command = getattr(getattr(error, "ctx", None), "command_path", "")
    return f" See `{command} --help`." if command else ""


def _fail(message: str, code: int, *, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    if len(message) > LONGEST:
        message = f"{message[: LONGEST // 2]} ... {message[-LONGEST // 2 :]}"
    say(f"bench: {message}")
    return code
