"""The import path of this process, for the Python processes that it starts.

By default, a process first searches its current folder. A folder there that is named `harness`, `plugins` or `tasks`
may be anything; in a clone of this project it is another version.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_FORMER = "BENCH_FORMER_"


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
