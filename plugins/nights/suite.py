"""Suites: TOML files of run commands for `bench nightly`. `plugins/nights/suites` describes the format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness import PluginError, Registry, UsageError
from harness.contracts import name_problem
from harness.reports import suggestions
from harness.runs import RunRequest, parse_seeds
from harness.system import user_path
from harness.tasks import TUNING_SEED
from plugins import toml_files
from plugins.fresh_seeds import fresh_seeds
from plugins.running.groups import ALL, LeftOut, check_owners, members

KEYS = ("summary", "reports", "season", "run")
RUN_KEYS = ("samplers", "tasks", "seeds", "chains", "budget", "schedule", "settings", "study", "sweep")
MAX_CHAINS = 100_000
MAX_SEEDS = 1000
"""Most seeds of a season: a row of more is none that anybody runs every night."""
_PLAIN = (str, int, float, bool)


@dataclass(frozen=True)
class Suite:
    """A parsed suite: its run commands in order, and the names of its reports (None for all of them).

    A command without samplers means `ALL`: `complete` replaces it by their names. `numbers` are the numbers of the
    commands in the file, from 1.
    """

    name: str
    path: Path
    summary: str
    entries: tuple[RunRequest, ...]
    reports: tuple[str, ...] | None = None
    numbers: tuple[int, ...] = ()
    season: int | None = None

    @property
    def digest(self) -> str:
        """The SHA-256 of the run commands; comments in the file do not change it."""
        text = json.dumps([asdict(entry) for entry in self.entries], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def find(registry: Registry, name: str) -> Suite:
    """Return a plugin's suite by name, or the suite in a file by its path (a name with .toml or a slash)."""
    if name.endswith(".toml") or "/" in name:
        return read(user_path(name))
    known = registry.suites()
    names = {path.stem for _, path in known}
    paths = [path for _, path in known if path.stem == registry.spelled(name, names)]
    if len(paths) == 1:
        return read(paths[0])
    if paths:
        raise UsageError(f"suite {name!r} is offered several times; give a path: {', '.join(map(str, paths))}")
    raise registry.unknown("unknown suite", name, names)


def read(path: Path) -> Suite:
    """Return the suite in a file; raise `UsageError` that names the file, the command and the key."""
    if problem := name_problem(path.stem):
        raise UsageError(f"{path}: the file name of a suite, {problem}")
    try:
        document = toml_files.read_toml(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; `bench ls suites` lists those that are installed") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {_short(error)}") from error
    where = str(path)
    _refuse_unknown(where, document, KEYS)
    runs = document.get("run")
    if not isinstance(runs, list) or not runs or not all(isinstance(run, dict) for run in runs):
        raise UsageError(f"{where}: it has no [[run]]; each is one run command")
    reports = _names(where, document, "reports") if "reports" in document else None
    summary = document.get("summary", "")
    _require(isinstance(summary, str), f"{where}: summary", summary, "text")
    season = document.get("season")
    _require(season is None or (type(season) is int and season > 0), f"{where}: season", season, "a number from 1")
    entries = tuple(_entry(f"{where}, run {i}", run, season) for i, run in enumerate(runs, 1))
    return Suite(path.stem, path, summary, entries, reports, tuple(range(1, len(entries) + 1)), season)


def facts(path: Path) -> dict[str, Any]:
    """Return what `bench ls suites` prints about a file."""
    suite = read(path)
    return {"commands": len(suite.entries), "summary": suite.summary}


def complete(suite: Suite, registry: Registry, results: Path) -> tuple[Suite, list[tuple[int, LeftOut]]]:
    """Return the suite with names instead of groups of samplers, and what is left out, by the number of the command.

    One command becomes several if tasks have different samplers. Raise `UsageError` if the study does not exist, or has
    no settings for any task of the command.
    """
    numbers, entries, left_out = [], [], []
    for number, request in zip(suite.numbers, suite.entries, strict=True):
        with about(suite, number):
            asked = replace(request, samplers=request.samplers or (ALL,))
            requests, without = members(registry, asked, results)
            check_owners(registry, [request], [*(name for one in requests for name in one.samplers), *without])
        left_out += [(number, one) for one in without]
        numbers += [number] * len(requests)
        entries += requests
    return replace(suite, entries=tuple(entries), numbers=tuple(numbers)), left_out


@contextmanager
def about(suite: Suite, number: int) -> Iterator[None]:
    """Name the file and the command (counted from 1) in errors raised in this block."""
    try:
        yield
    except (UsageError, PluginError) as error:
        raise type(error)(f"{suite.path}, run {number}: {_short(error)}") from error


def _entry(where: str, run: Mapping[str, Any], season: int | None) -> RunRequest:
    _refuse_unknown(where, run, RUN_KEYS)
    for key in ("samplers", "tasks"):
        if key not in run:
            raise UsageError(f'{where}: {key} is missing, as in {key} = ["name"]')
    given, sweep = _settings(where, run, "settings"), _settings(where, run, "sweep")
    for name, values in sweep.items():
        _require(_is_list(values, _PLAIN), f"{where}: sweep.{name}", values, "a list of values")
    for name, value in given.items():
        _require(isinstance(value, _PLAIN), f"{where}: settings.{name}", value, "a value; a list belongs in sweep")
    if both := sorted(given.keys() & sweep.keys()):
        raise UsageError(f"{where}: {both[0]} is in both settings and sweep; keep one")
    if "schedule" in run and given.setdefault("schedule", name := _text(where, run, "schedule")) != name:
        raise UsageError(f"{where}: schedule is given twice, here and in settings; keep one")
    chains = run.get("chains")
    fits = chains is None or (type(chains) is int and 1 <= chains <= MAX_CHAINS)
    _require(fits, f"{where}: chains", chains, f"a number from 1 to {MAX_CHAINS:,}")
    every = run["samplers"] == ALL
    if every and "study" not in run:
        raise UsageError(f'{where}: samplers = "{ALL}" means all that a study has settings for; add study = "tuned"')
    return RunRequest(
        samplers=() if every else _names(where, run, "samplers"),
        tasks=_names(where, run, "tasks"),
        seeds=_seeds(where, run["seeds"], season) if "seeds" in run else None,
        chains=chains,
        budget=_text(where, run, "budget") if "budget" in run else "paper",
        given=given,
        sweep=sweep,
        study=_text(where, run, "study") if "study" in run else "",
    )


def _require(right: bool, key: str, value: Any, what: str) -> None:
    if not right:
        raise UsageError(f"{key} = {value!r:.60} is not {what}")


def _is_list(value: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, kind) for entry in value)


def _refuse_unknown(where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r:.60}{suggestions(key, known)}")


def _names(where: str, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table[key]
    right = _is_list(value, str) and all(map(str.strip, value))
    _require(right, f"{where}: {key}", value, 'a list of names, as in ["a", "b"]')
    return tuple(dict.fromkeys(word.strip() for word in value))


def _text(where: str, table: Mapping[str, Any], key: str) -> str:
    value = table[key]
    _require(isinstance(value, str) and bool(value), f"{where}: {key}", value, "text")
    return str(value)


def _seeds(where: str, value: Any, season: int | None) -> list[int]:
    """Return the seeds of a command; a number of seeds means the first ones of the season, the same in all suites."""
    if type(value) is int and 1 <= value <= MAX_SEEDS:
        if season is None:
            raise UsageError(f"{where}: seeds = {value} is a number of seeds; add season = 1 before the first [[run]]")
        return fresh_seeds(value, "season", season)
    if isinstance(value, str):
        try:
            return parse_seeds(value)
        except UsageError as error:
            raise UsageError(f"{where}: {_short(error).replace('--seeds', 'seeds =')}") from error
    if _is_list(value, int) and all(type(seed) is int and 0 <= seed < TUNING_SEED for seed in value):
        return list(dict.fromkeys(value))
    numbers = f"a number of seeds up to {MAX_SEEDS:,} nor a list of numbers from 0, below {TUNING_SEED:,}"
    raise UsageError(f'{where}: seeds = {value!r:.60} is neither text like "0-9" nor {numbers}')


def _settings(where: str, run: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the values by dotted name, whether the file writes "sampler.a" in quotes or not."""
    value = run.get(key, {})
    _require(isinstance(value, dict), f"{where}: {key}", value, "a table, as in { sampler.a = 5 }")
    return _flat(f"{where}: {key}", value)


def _flat(where: str, table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        inside = _flat(where, value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
        if flat.keys() & inside.keys():
            raise UsageError(f"{where}: {min(flat.keys() & inside.keys())} is given twice; keep one")
        flat |= inside
    return flat


def _short(error: Exception) -> str:
    """Return the text of an error, shortened because it may quote the whole file."""
    text = str(error)
    return text if len(text) <= 500 else f"{text[:500]}..."
