"""The import path of this process, for the Python processes that it starts.

By default, a process first searches its current folder. A folder there that is named `harness`, `plugins` or `tasks`
may be anything; in a clone of this project it is another version. The built-in packages are those beside `harness`,
whatever the import path finds first by their names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

_FORMER = "BENCH_FORMER_"
PACKAGES, HOME = ("plugins", "tasks", "reports"), Path(__file__).resolve().parents[2]
"""The built-in packages, and their folder."""


class _BuiltIn(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return PathFinder.find_spec(fullname, [str(HOME)]) if fullname in PACKAGES else None


sys.meta_path.insert(0, _BuiltIn())


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that executes a module of a built-in package in a process of its own."""
    run = "del sys.argv[0]; runpy.run_module(sys.argv[0], run_name='__main__')"
    return [sys.executable, "-P", "-c", f"import runpy, sys, {__name__}; {run}", module, *arguments]


def import_path() -> dict[str, str]:
    """Return the environment variables that give a Python process the import path of this one."""
    return {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)), "PYTHONSAFEPATH": "1"}


@contextmanager
def passed_on() -> Iterator[None]:
    """Pass the import path on to processes that are started meanwhile; there, `restore` sets the variables back."""
    variables = import_path()
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables | {_FORMER + name: value for name, value in before.items() if value is not None})
    try:
        yield
    finally:
        _reset(before)
        for name in variables:
            os.environ.pop(_FORMER + name, None)


def restore() -> None:
    """Set the variables back in a process started by `passed_on`, for the processes that it starts itself."""
    _reset({name: os.environ.pop(_FORMER + name, None) for name in import_path()})


def _reset(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
