"""Python processes that import what this one does: without it, a process looks into its current folder first.

There a folder named `harness`, `plugins` or `tasks` may be anything; in a clone of this project it is another version.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_FORMER = "BENCH_FORMER_"


def import_path() -> dict[str, str]:
    """The environment variables by which a Python process gets the import path of this one."""
    return {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)), "PYTHONSAFEPATH": "1"}


@contextmanager
def passed_on() -> Iterator[None]:
    """Processes that are started meanwhile get the import path; `restore` gives them their own variables back."""
    given = import_path()
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given | {_FORMER + name: value for name, value in before.items() if value is not None})
    try:
        yield
    finally:
        _reset(before)
        for name in given:
            os.environ.pop(_FORMER + name, None)


def restore() -> None:
    """In a process started by `passed_on`: the variables as they were before, for the processes that it will start."""
    _reset({name: os.environ.pop(_FORMER + name, None) for name in import_path()})


def _reset(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
