"""The papers' files, parsed and checked: settings, choices, cells and claims. `plugins.papers` describes them."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import PluginError, Registry, UsageError
from harness.reports import Term, terms
from harness.tasks import StatedSettings, StatedValue
from plugins import toml_files

PROVENANCES = ("paper", "code", "inferred", "ours")
ALONE = "each alone"
PLACE = ("method", "task", "protocol")
LABELS = ("table", "row", "column")
WHOLE = ("chains", "n", "share", "trials", "worse_chains")
NUMBERS = ("value", "error", "margin", "least_ess", "core_hours")
"""The keys of cells and claims whose values are whole numbers, and numbers. All others are texts."""
OF_CELL = (
    *LABELS, *PLACE, "chains", "metric", "direction", "value", "error", "error_kind", "n", "printed_as", "correction",
    "evidence", "uncertain", "outside", "obstacle", "needs", "core_hours", "cause", "notes",
)  # fmt: skip
OF_CLAIM = (
    "table", "statement", "kind", "better", "worse", "task", "protocol", "chains", "worse_protocol", "worse_chains",
    "metric", "direction", "measure", "share", "trials", "margin", "least_ess", "obstacle", "needs", "core_hours",
    "cause", "notes",
)  # fmt: skip
Entry = dict[str, Any]


class Malformed(ValueError):  # noqa: N818 - becomes a note
    """What is wrong with a file; the message names table and key."""


@dataclass(frozen=True)
class Choice:
    """A choice behind the runs of a protocol: a setting of a method, or one that is no setting; method None: of all."""

    method: str | None
    task: str
    protocol: str
    name: str
    value: str
    provenance: str


@dataclass(frozen=True)
class PaperFile:
    """The content of a file. Cells and claims have a value, or None, for each of `OF_CELL` and `OF_CLAIM`.

    second     whether it is a second file of its paper, with nothing but settings and choices
    execution  settings of the tasks that concern rounding and recording
    stated     the settings of methods
    """

    paper: str
    second: bool
    execution: frozenset[str]
    cells: Sequence[Entry]
    claims: Sequence[Entry]
    choices: Sequence[Choice]
    stated: Sequence[StatedSettings]


def paths(registry: Registry) -> list[Path]:
    """Return the papers' files of all plugins."""
    return [path for plugin in registry.plugins for path in plugin.papers]


def stated(registry: Registry, distributions: Collection[str]) -> list[StatedSettings]:
    """Return the settings of all papers, for the hook `bench_settings`.

    A file that cannot be read is left out, unless one of these distributions provides it: `PluginError`.
    """
    readable: list[StatedSettings] = []
    for plugin in registry.plugins:
        try:
            readable += [one for path in plugin.papers for one in settings(path, plugin.distribution)]
        except PluginError:
            if plugin.distribution in distributions:
                raise
    return readable


def settings(path: Path, distribution: str = "") -> Sequence[StatedSettings]:
    """Return the [[settings]] of a paper's file. Raises `PluginError`, which names file, table and key."""
    try:
        return _settings(toml_files.read_text(path), distribution)
    except OSError as error:
        raise PluginError(f"paper file {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        kind = "" if isinstance(error, Malformed) else " is not TOML"
        raise PluginError(f"paper file {path}{kind}: {error}") from error


@functools.lru_cache(maxsize=64)
def _settings(text: str, distribution: str) -> Sequence[StatedSettings]:
    """Return the [[settings]] of the text of a paper's file. A plan asks for them once per row."""
    return _stated(_parsed(text), distribution)


def _stated(document: Mapping[str, Any], distribution: str = "") -> list[StatedSettings]:
    paper = document["paper"]["id"]
    return [
        StatedSettings(
            method=one["method"],
            task=one["task"],
            protocol=one["protocol"],
            stated_by=paper,
            values=_values(one),
            each_alone=one.get("sweep") == ALONE,
            distribution=distribution,
        )
        for table in document.get("settings", [])
        for one in _combinations(table)
    ]


def _values(table: Mapping[str, Any]) -> dict[str, StatedValue]:
    named = {"schedule": StatedValue(table["schedule"], "paper")} if "schedule" in table else {}
    return named | {
        name: StatedValue(
            entry["value"], entry["provenance"], entry.get("source", ""), tuple(entry.get("swept", ()))
        )
        for name, entry in table.get("values", {}).items()
    }  # fmt: skip


def sweeps(stated: StatedSettings) -> list[dict[str, list[Any]]]:
    """Return the declared sweeps of a method's settings, each as the values of the settings that it varies.

    One sweep takes every combination of the settings that have several values, unless each is swept alone.
    """
    swept = {name: list(one.swept) for name, one in stated.values.items() if one.swept}
    if stated.each_alone:
        return [{name: values} for name, values in swept.items()]
    return [swept] if swept else []


def sweep_points(stated: StatedSettings) -> list[dict[str, Any]]:
    """Return the values of the swept settings at each point of the declared sweeps, the published one among them."""
    published = {name: one.value for name, one in stated.values.items() if one.swept}
    points = [published]
    for values in sweeps(stated):
        combinations = (dict(zip(values, each, strict=True)) for each in itertools.product(*values.values()))
        points += [published | combination for combination in combinations]
    return [point for i, point in enumerate(points) if point not in points[:i]]


def problems(path: Path) -> dict[str, Any]:
    """Raise `PluginError` or `UsageError` for a file that cannot be read, for the hook `bench_facts`."""
    settings(path)
    if notes := read([path])[1]:
        raise UsageError(notes[0])
    return {}


def read(files: Iterable[Path]) -> tuple[list[PaperFile], list[str]]:
    """Return the content of the files, sorted by paper, and a note for each file that is left out.

    A file whose [paper] has nothing but an id is a second file of that paper, with settings and choices.
    """
    readable: list[PaperFile] = []
    notes = []
    for path in sorted(files):
        try:
            file = _paper(_document(path))
            if not file.second and file.paper in {other.paper for other in readable if not other.second}:
                raise Malformed(f"another file has the paper {file.paper!r} too")
        except (OSError, ValueError, TypeError, RecursionError) as error:
            notes.append(f"{path} is left out: {error}")
            continue
        readable.append(file)
    return sorted(readable, key=lambda file: file.paper), notes


def _paper(document: Mapping[str, Any]) -> PaperFile:
    paper = document["paper"]
    second = paper.keys() == {"id"} and not document.keys() & {"reported", "claim"}
    if not second:
        _checked(paper, ("title", "citation"), "[paper]", required=("title", "citation"))
    execution = paper.get("execution", [])
    if not isinstance(execution, list) or not all(isinstance(name, str) for name in execution):
        raise Malformed("[paper]: execution is not a list of names of settings")
    cells = [
        _checked(entry, OF_CELL, f"[[reported]]: cell {i}", required=LABELS)
        for i, entry in enumerate(_entries(document, "reported", "cells"))
    ]
    claims = [
        {**entry, **_checked(entry, OF_CLAIM, f"[[claim]]: claim {i}"), "differs": _differs(entry, i)}
        for i, entry in enumerate(_entries(document, "claim", "claims"))
    ]
    return PaperFile(paper["id"], second, frozenset(execution), cells, claims, [*_choices(document)], _stated(document))


def _differs(entry: Mapping[str, Any], number: int) -> list[Term]:
    """Return the terms in which the sides of a claim differ, as its statement says."""
    words = entry.get("differs", [])
    try:
        return terms(words if isinstance(words, list) else [words])
    except (UsageError, TypeError) as error:
        raise Malformed(f"[[claim]]: claim {number}: differs: {error}") from None


def _checked(entry: Mapping[str, Any], names: Iterable[str], where: str, required: Collection[str] = ()) -> Entry:
    """Return these values of an entry, None for those that it lacks. A label may be written as a number."""
    values: Entry = {}
    for name in names:
        value: Any = entry.get(name)
        kind, limit = (int, 2**63) if name in WHOLE else (float, math.inf) if name in NUMBERS else (str, 0)
        if name in LABELS and value is not None:
            value = str(value)
        if kind is float and type(value) is int and abs(value) < 2**1023:
            value = float(value)
        fits = type(value) is kind
        if (value is not None or name in required) and (not fits or (limit and not abs(value) < limit)):
            raise Malformed(f"{where}: {name} = {value!r:.40} is not a {kind.__name__}")
        values[name] = value
    return values


def _choices(document: Mapping[str, Any]) -> Iterator[Choice]:
    """Yield the settings of each method, then the other choices behind each protocol."""
    for table in document.get("settings", []):
        for one, (name, entry) in itertools.product(_combinations(table), table.get("values", {}).items()):
            yield Choice(one["method"], one["task"], one["protocol"], name, _text(entry["value"]), entry["provenance"])
    for i, table in enumerate(_tables(document, "choices", "choices is not a list of tables, [[choices]]"), 1):
        where = f"[[choices]] {i}"
        entries = _tables(table, "values", f"{where}: values is not a list of tables")
        _check_place(where, table, optional=("method",))
        for one, entry in itertools.product(_combinations(table), entries):
            name, value, provenance = (entry.get(key) for key in ("name", "value", "provenance"))
            if not isinstance(name, str) or not isinstance(value, str) or provenance not in PROVENANCES:
                known = ", ".join(PROVENANCES)
                raise Malformed(f"{where}: name or value is not text, or provenance is not one of {known}")
            yield Choice(one.get("method"), one["task"], one["protocol"], name, value, provenance)


def _combinations(table: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the content of a table for each combination of its methods, tasks and protocols."""
    lists = {key: table[key] for key in PLACE if isinstance(table.get(key), list)}
    for names in itertools.product(*lists.values()):
        yield {**table, **dict(zip(lists, names, strict=True))}


def _entries(document: Mapping[str, Any], key: str, members: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records of [[key]].

    A table with the list `members` gives a record for each member, to which the table's other entries are added.
    """
    for table in _tables(document, key, f"{key} is not a list of tables, [[{key}]]"):
        if members not in table:
            yield table
            continue
        shared = {name: value for name, value in table.items() if name != members}
        for entry in _tables(table, members, f"[[{key}]]: {members} is not a list of tables"):
            yield {**shared, **entry}


def _tables(document: Mapping[str, Any], key: str, problem: str) -> list[Mapping[str, Any]]:
    tables = document.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise Malformed(problem)
    return tables


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _document(path: Path) -> Mapping[str, Any]:
    """Return a file whose [paper] and [[settings]] are checked. Raises `Malformed`, which names table and key."""
    return _parsed(toml_files.read_text(path))


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> Mapping[str, Any]:
    """Parse and check a paper's file. Parsing takes 10 ms."""
    document = toml_files.parse(text)
    paper = document.get("paper")
    if not isinstance(paper, dict) or not isinstance(paper.get("id"), str):
        raise Malformed("[paper] is missing, or its id is not text")
    for i, table in enumerate(_tables(document, "settings", "settings is not a list of tables, [[settings]]"), 1):
        _check_table(f"[[settings]] {i}", table)
    return document


def _check_place(where: str, table: Mapping[str, Any], optional: Sequence[str] = ()) -> None:
    for key in PLACE:
        names = table.get(key)
        several = names if isinstance(names, list) and names else [names]
        if not all(isinstance(name, str) for name in several) and (key in table or key not in optional):
            raise Malformed(f"{where}: {key} = {names!r:.60} is not a name, or a list of names")


def _check_table(where: str, table: Mapping[str, Any]) -> None:
    _check_place(where, table)
    for key in ("schedule", "summary"):
        if not isinstance(table.get(key, ""), str):
            raise Malformed(f"{where}: {key} = {table[key]!r:.60} is not text")
    if table.get("sweep", ALONE) != ALONE:
        raise Malformed(f"{where}: sweep = {table['sweep']!r:.60} is not {ALONE!r}, the only value allowed")
    values = table.get("values", {})
    if not isinstance(values, dict):
        raise Malformed(f"{where}: values is not a table")
    for name, entry in values.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("value"), str | int | float | bool):
            raise Malformed(f'{where}: "{name:.60}" is not {{ value = ..., provenance = ..., source = ... }}')
        if entry.get("provenance") not in PROVENANCES or not isinstance(entry.get("source", ""), str):
            raise Malformed(
                f'{where}: "{name:.60}": provenance is not one of {", ".join(PROVENANCES)}, or source is not text'
            )
        several = entry.get("swept", [entry["value"]])
        if not isinstance(several, list) or repr(entry["value"]) not in map(repr, several):  # 1 == True
            raise Malformed(f'{where}: "{name:.60}": swept is not a list with {entry["value"]!r} in it')
        if not all(isinstance(value, str | int | float | bool) for value in several):
            raise Malformed(f'{where}: "{name:.60}": swept has a value that is no text, number, true or false')
