"""The arguments of Python's `run` and `plan`, checked before the first step; the command line checks its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from harness.results.spec import MAX_CHAINS
from harness.system.errors import UsageError


def check(
    seeds: str | Iterable[int] | None,
    chains: int | None,
    budget: str,
    study: str,
    settings: Mapping[str, Any] | None,
    sweep: Mapping[str, Sequence[Any]] | None,
) -> None:
    """Raise `UsageError` for an argument of another type, or out of its range."""
    if not isinstance(seeds, str | Iterable | None):
        raise UsageError(f"seeds = {seeds!r} is neither numbers, such as range(5), nor a text, such as '0-4'")
    if chains is not None and (type(chains) is not int or not 1 <= chains <= MAX_CHAINS):
        raise UsageError(f"chains = {chains!r:.80} is not a whole number from 1 to {MAX_CHAINS:,}")
    if not isinstance(budget, str):
        raise UsageError(f"budget = {budget!r:.80} is not a text, such as 'quick', 'steps=1000' or 'passes=100'")
    if not isinstance(study, str):
        raise UsageError(f"study = {study!r:.80} is not the name of a study")
    for name, given in (("settings", settings), ("sweep", sweep)):
        if not isinstance(given, Mapping | None) or not all(isinstance(key, str) for key in given or ()):
            raise UsageError(f"{name} = {given!r:.80} is not a dict by names of settings")
    for name, values in (sweep or {}).items():
        if isinstance(values, str) or not isinstance(values, Collection) or not len(values):
            raise UsageError(f"sweep of {name} = {values!r:.80} is not a list of values")
    if both := sorted((settings or {}).keys() & (sweep or {}).keys()):
        raise UsageError(f"{both[0]} is in both settings and sweep; keep one")


def check_execution(
    devices: str = "auto",
    workers: int | None = None,
    timeout: float | None = None,
    max_runs: int | None = None,
    *,
    retry: bool = False,
) -> None:
    """Raise `UsageError` for an argument about how runs are executed of another type, or out of its range."""
    if not isinstance(devices, str):
        raise UsageError(f"devices = {devices!r:.80} is not a text, such as 'cpu' or 'cuda:0,cuda:1'")
    for name, number, least in (("workers", workers, 1), ("max_runs", max_runs, 0)):
        if number is not None and (type(number) is not int or number < least):
            raise UsageError(f"{name} = {number!r:.80} is not a whole number from {least} on")
    if timeout is not None and (type(timeout) not in {int, float} or not timeout > 0):
        raise UsageError(f"timeout = {timeout!r:.80} is not a positive number of seconds")
    if not isinstance(retry, bool):
        raise UsageError(f"retry = {retry!r:.80} is neither True nor False")
