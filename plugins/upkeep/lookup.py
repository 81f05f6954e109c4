"""The attempt that a user names by the beginning of a run key, or by the attempt's own name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness import DataError, UsageError
from harness.results import NAME, RESULT, Attempt, Ledger
from harness.system import read_json

KEY = re.compile(r"[0-9a-fA-F]{6,64}")
SHOWN = 5


def concluded_attempt(ledger: Ledger, text: str) -> Attempt:
    """Return the attempt with that name, or the one that counts for the run whose key begins with the text.

    Raise `UsageError` if there is none, if several runs match, or if the run is not concluded; `DataError` if its
    result is damaged.
    """
    if NAME.fullmatch(text):
        attempt = _named(ledger, text)
    elif KEY.fullmatch(text):
        key = run_key(ledger, text)
        attempt = _counting(ledger, key)
    else:
        raise UsageError(f"{text!r} is neither a run key (6 to 64 hexadecimal digits of it) nor an attempt's name")
    result, damage = attempt.read_result()
    if damage:
        raise DataError(f"{attempt.path}: {damage}; the run's command repeats it")
    if result is None:
        raise UsageError(f"attempt {attempt.id} is not finished; repeat its command to resume it")
    return attempt


def run_key(ledger: Ledger, prefix: str) -> str:
    """Return the key of the run on disk that begins with `prefix`; raise `UsageError` if there is not exactly one."""
    start = prefix.lower()
    keys = sorted(path.name for path in ledger.runs.glob(f"{start[:2]}/{start}*") if ledger.attempts(path.name))
    if len(keys) == 1:
        return keys[0]
    if keys:
        raise UsageError(f"{prefix} matches {len(keys)} runs; give more digits: {_listed(ledger, keys)}")
    raise UsageError(f"there is no run {prefix} in {ledger.root}; `bench ls runs` lists them")


def _named(ledger: Ledger, name: str) -> Attempt:
    for key in ledger.all_keys():
        for attempt in ledger.attempts(key):
            if attempt.id == name:
                return attempt
    raise UsageError(f"there is no attempt {name} in {ledger.root}; `bench show RUN` lists those of a run")


def _counting(ledger: Ledger, key: str) -> Attempt:
    standing = ledger.standing(key)
    if standing.cached and standing.attempt is not None:
        return standing.attempt
    concluded = [attempt for attempt in ledger.attempts(key) if (attempt.path / RESULT).exists()]
    if concluded:
        return concluded[-1]
    raise UsageError(f"run {key[:12]} is {standing.status}: it has no result yet; repeat its command to resume it")


def _listed(ledger: Ledger, keys: Iterable[str]) -> str:
    words = []
    for key in [*keys][:SHOWN]:
        spec = read_json(ledger.attempts(key)[-1].path / "spec.json") or {}
        task = (spec.get("task") or {}).get("name")
        words.append(f"{key[:12]} ({spec.get('method')} on {task}, seed {spec.get('seed')})")
    return ", ".join(words)
