"""The papers' files: settings, choices, printed cells and claims. `plugins/papers` describes their content.

Plans take the settings from here, and the store its rows, so that a file is parsed and checked in one way for both.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.contracts.registry import Offer, Registry
from harness.results.records import columns_of, tables
from harness.system import cache
from harness.system.columns import Malformed, Row, dump, row
from harness.system.errors import PluginError
from harness.system.files import read_bytes
from harness.system.toml import parse, read_text

PROVENANCES = ("paper", "code", "inferred", "ours")
USER, SWEPT, TUNED = "user", "swept", "tuned"
"""The provenance of a value that a user set for a run, of one in a declared sweep, and of one from `bench tune`."""
ALONE = "each alone"
PLACE = ("method", "task", "protocol")
LABELS = ("table", "row", "column")
_OURS = re.compile(r"\bours\b")


def source_of_budget(protocol: str, budget: str) -> str:
    """Return the source of a setting that a protocol gives only to the runs of one budget."""
    return f"protocol {protocol}, {budget}"


def provenance(origin: Mapping[str, Any]) -> str:
    """Return who chose a setting, by its recorded origin. A class's default is "ours" if its source says so."""
    kind = str(origin["provenance"])
    return "ours" if kind == "default" and _OURS.search(str(origin.get("source", ""))) else kind


def settle(origins: Mapping[str, Any], choices: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return for each setting who chose it.

    `choices` are those that the papers' files now have for the run's method, task and protocol. A value that a user set
    counts as the paper's if its file states that value. The other values that a user set count as `SWEPT` if they are a
    point of the paper's declared sweep: a run has the same key, whoever asked for it.
    """
    kinds = {name: provenance(origin) for name, origin in origins.items()}
    changed = {name: origins[name]["value"] for name, kind in kinds.items() if kind == USER and name in choices}
    for name, value in list(changed.items()):
        if repr(value) == repr(json.loads(choices[name]["stated"])[0]):  # 1 == True
            kinds[name] = choices[name]["provenance"]
            del changed[name]
    alone = any(choices[name]["sweep"] for name in changed)
    declared = all(repr(value) in map(repr, json.loads(choices[name]["stated"])) for name, value in changed.items())
    if declared and not (alone and len(changed) > 1) and list(kinds.values()).count(USER) == len(changed):
        kinds |= dict.fromkeys(changed, SWEPT)
    return kinds


def settings_for(registry: Registry, offers: Iterable[Offer]) -> list[dict[str, Any]]:
    """Return the settings of all papers, each with the distribution that provides it.

    A file that cannot be read stops the runs of its own plugin's offers, but not those of others.
    """
    own = {offer.distribution for offer in offers}
    found: list[dict[str, Any]] = []
    for plugin in registry.plugins:
        try:
            tables = [table for path in plugin.papers for table in settings(path)]
            found += [{**table, "distribution": plugin.distribution} for table in tables]
        except PluginError:
            if plugin.distribution in own:
                raise
    return found


def settings(path: Path) -> list[dict[str, Any]]:
    """Return the [[settings]] of a paper's file, each with the id of the paper.

    Raises `PluginError`, which names file, table and key.
    """
    try:
        document = _document(path)
        return [
            {**one, "paper": document["paper"]["id"]}
            for table in document.get("settings", [])
            for one in _combinations(table)
        ]
    except OSError as error:
        raise PluginError(f"paper file {path}: {error.strerror}") from error
    except (Malformed, ValueError, RecursionError) as error:
        kind = "" if isinstance(error, Malformed) else " is not TOML"
        raise PluginError(f"paper file {path}{kind}: {error}") from error


def sweeps(table: Mapping[str, Any]) -> list[dict[str, list[Any]]]:
    """Return the declared sweeps of a table of settings, each as the values of the settings that it varies.

    One sweep takes every combination of the settings that have several values, "swept". If the table's `sweep` is "each
    alone", each of these settings has a sweep of its own.
    """
    found = {name: entry["swept"] for name, entry in table.get("values", {}).items() if "swept" in entry}
    if table.get("sweep") == ALONE:
        return [{name: values} for name, values in found.items()]
    return [found] if found else []


def checksum(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of the files together. A file that cannot be read counts as empty."""
    total = hashlib.sha256()
    for path in sorted(paths):
        content = b""
        with suppress(OSError):
            content = read_bytes(os.path.realpath(path))
        total.update(hashlib.sha256(content).digest())
    return total.hexdigest()


def read(paths: Iterable[Path]) -> tuple[dict[str, list[Row]], list[str]]:
    """Return the rows of all papers by table, and a note for each file that is left out.

    A file whose [paper] has nothing but an id is a second file of that paper, with settings and choices.
    """
    paths = sorted(paths)
    digest = checksum(paths)
    rows: dict[str, list[Row]] = {table: [] for table in tables("papers")}
    notes = []
    for path in paths:
        try:
            found = _paper(_document(path), digest)
            known = {row["paper"] for row in rows["paper"]}
            if twice := [row["paper"] for row in found["paper"] if row["paper"] in known]:
                raise Malformed(f"another file has the paper {twice[0]!r} too")  # noqa: TRY301
        except (Malformed, OSError, ValueError, TypeError, RecursionError) as error:
            notes.append(f"{path} is left out: {error}")
            continue
        for table in rows:
            rows[table] += found[table]
    return rows, notes


def _paper(document: Mapping[str, Any], digest: str) -> dict[str, list[Row]]:
    paper = document["paper"]
    second = paper.keys() == {"id"} and not document.keys() & {"reported", "claim"}
    name = paper["id"]
    heads = [] if second else [row(columns_of("paper"), paper, "[paper]", sha256=digest)]
    return {
        "paper": heads,
        "reported_value": [
            row(columns_of("reported_value"), _with_text_labels(entry), f"[[reported]]: cell {i}", paper=name, i=i)
            for i, entry in enumerate(_entries(document, "reported", "cells"))
        ],
        "claim": [
            row(columns_of("claim"), _with_text_labels(entry), f"[[claim]]: claim {i}", paper=name, i=i, document=entry)
            for i, entry in enumerate(_entries(document, "claim", "claims"))
        ],
        "choice": [row(columns_of("choice"), choice, where, paper=name) for where, choice in _choices(document)],
    }


def _choices(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the settings of each method, then the other choices behind each protocol, with their places in the file."""
    for i, table in enumerate(document.get("settings", []), 1):
        for one, (name, entry) in itertools.product(_combinations(table), table.get("values", {}).items()):
            stated = dump([entry["value"], *entry.get("swept", [])])
            record = {**entry, **{key: one[key] for key in PLACE}, "name": name, "value": _text(entry["value"])}
            yield f"[[settings]] {i}", {**record, "stated": stated, "sweep": table.get("sweep")}
    for i, table in enumerate(_tables(document, "choices", "choices is not a list of tables, [[choices]]"), 1):
        where = f"[[choices]] {i}"
        entries = _tables(table, "values", f"{where}: values is not a list of tables")
        _check_place(where, table, optional=("method",))
        for one, entry in itertools.product(_combinations(table), entries):
            yield where, {**entry, **{key: one.get(key) for key in PLACE}}


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
    found = document.get(key, [])
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
        raise Malformed(problem)
    return found


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _with_text_labels(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record with its labels as text: a file may write a table's number as a number."""
    return {name: str(value) if name in LABELS else value for name, value in entry.items()}


def _document(path: Path) -> Mapping[str, Any]:
    """Return a file whose [paper] and [[settings]] are checked. Raises `Malformed`, which names table and key."""
    return _parsed(read_text(path))


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> Mapping[str, Any]:
    """Parse and check a paper's file. A plan asks for it once per row, and parsing takes 10 ms."""
    document = _cached_document(text)
    paper = document.get("paper")
    if not isinstance(paper, dict) or not isinstance(paper.get("id"), str):
        raise Malformed("[paper] is missing, or its id is not text")
    for i, table in enumerate(_tables(document, "settings", "settings is not a list of tables, [[settings]]"), 1):
        _check_table(f"[[settings]] {i}", table)
    return document


def _cached_document(text: str) -> Mapping[str, Any]:
    """Return the document in a text, from the cache if it was parsed before: TOML takes ten times as long as JSON."""
    found = cache.read("papers", text)
    if found is None:
        document = parse(text)
        with suppress(TypeError):  # a date is not JSON
            cache.keep("papers", text, json.dumps(document))
        return document
    known: Mapping[str, Any] = json.loads(found)
    return known


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
