"""A process that imports plugins, so that one that hangs, exits or crashes at import does not end the command.

One-off plugin files can be imported as modules too, and import their neighbours: `FILES` maps their names to paths.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.system.streams import secure

if TYPE_CHECKING:
    from harness.contracts.offers import Plugin

FILES: dict[str, str] = {}
"""The files given by --plugin, by the name of their module."""
LIMIT = "BENCH_IMPORT_SECONDS"
"""The environment variable with the time limit for importing a plugin's module."""


def add_file(path: Path) -> str:
    """Make a file importable as a module; return the module's name."""
    name = path.stem.replace("-", "_")
    FILES[name] = str(path.resolve())
    return name


class _Files(importlib.abc.MetaPathFinder):
    """Finds plugin files, and modules beside them that are nowhere else."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if file := FILES.get(fullname):
            return importlib.util.spec_from_file_location(fullname, file)
        folders = sorted({str(Path(file).parent) for file in FILES.values()}) if path is None else []
        specs = {folder: spec for folder in folders if (spec := PathFinder.find_spec(fullname, [folder]))}
        if len(specs) > 1:
            raise ImportError(f"{fullname!r} is beside several plugin files, in {' and '.join(specs)}; rename one")
        return next(iter(specs.values()), None)


sys.meta_path.append(_Files())


@contextlib.contextmanager
def blocked(*signals: signal.Signals) -> Iterator[None]:
    """Block signals, also in the processes that are started meanwhile and for as long as these live."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def answers(plugins: Sequence[Plugin], seconds: float) -> Iterator[Plugin | str]:
    """Yield each plugin with what it offers; if one ends the process or takes more than `seconds`, yield the reason."""
    program = f"import sys; sys.path[:] = {sys.path!r}; from harness.contracts import plugin_process as p; p.serve()"
    with blocked(signal.SIGINT):  # or Ctrl-C would be a fault of the plugin
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((FILES, seconds, list(plugins)), process.stdin)
            process.stdin.flush()
            for _ in plugins:
                yield pickle.load(process.stdout)  # noqa: S301 - our own code wrote it
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            yield ending(process.wait(), seconds, LIMIT)
        finally:
            process.kill()


def ending(code: int | None, seconds: float, variable: str = "") -> str:
    """Return a description of how a process ended whose time was limited by `limit`, or by a variable."""
    if code == -signal.SIGALRM:
        return f"it took more than {seconds:g} s{f'; {variable}={2 * seconds:g} allows more' if variable else ''}"
    return f"it ended its process ({f'signal {-code}' if code and code < 0 else f'exit code {code}'})"


def limit(seconds: float) -> None:
    """End this process by SIGALRM after `seconds`, whatever code it then executes; 0 removes the limit."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def serve() -> None:
    """Import the plugins that stdin names and write what they offer to stdout. What they print goes to stderr."""
    from harness.contracts.offers import look

    files, seconds, plugins = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own code wrote it
    FILES.update(files)
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    secure()
    os.register_at_fork(after_in_child=channel.close)  # otherwise the end of this process would not be noticed
    for plugin in plugins:
        limit(seconds)
        look(plugin)
        limit(0)
        pickle.dump(plugin, channel)
        channel.flush()
    os._exit(0)
