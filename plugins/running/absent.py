"""Planned runs whose data files are missing or damaged."""

from __future__ import annotations

import functools
from collections.abc import Callable

from harness import DataError
from harness.runs import Planned
from harness.tasks import DataFile, locate


def absent_data() -> Callable[[Planned], str]:
    """Return a function that says why the data of a planned run cannot be used, or ""; it checks a file once."""

    @functools.cache
    def problem(file: DataFile) -> str:
        try:
            locate(file)
        except DataError as error:
            return str(error)
        return ""

    return lambda planned: next(filter(None, map(problem, planned.data)), "")
