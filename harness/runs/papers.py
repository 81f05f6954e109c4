"""What the papers' TOML files set for a method on a task under a protocol. `plugins/papers` says what they hold."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.contracts.registry import Offer, Registry
from harness.system.errors import PluginError
from harness.system.toml import parse, read_text

PROVENANCES = ("paper", "code", "inferred", "ours")
SWEPT = "swept"
"""The provenance of a value of a declared sweep."""
ALONE = "each alone"
_OURS = re.compile(r"\bours\b")


def provenance(origin: Mapping[str, Any]) -> str:
    """Who chose a setting, by its recorded origin; a class's default is "ours" where its source says that it is."""
    kind = str(origin["provenance"])
    return "ours" if kind == "default" and _OURS.search(str(origin.get("source", ""))) else kind


def settings_for(registry: Registry, offers: Iterable[Offer]) -> list[dict[str, Any]]:
    """The settings of all papers, each with the distribution that has it.

    A file that does not read stops the runs of its own plugin's offers, not others'.
    """
    own = {offer.distribution for offer in offers}
    found: list[dict[str, Any]] = []
    for plugin in registry.plugins:
        try:
            tables = [table for path in plugin.papers for table in read(path)]
            found += [{**table, "distribution": plugin.distribution} for table in tables]
        except PluginError:
            if plugin.distribution in own:
                raise
    return found


def read(path: Path) -> list[dict[str, Any]]:
    """The [[settings]] of a paper's file, each with the id of the paper; `PluginError` names file, table and key."""
    here = f"paper file {path}"
    try:
        return [dict(table) for table in _tables(here, read_text(path))]
    except OSError as error:
        raise PluginError(f"{here}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise PluginError(f"{here} is not TOML: {error}") from error


@functools.lru_cache(maxsize=64)
def _tables(here: str, text: str) -> list[dict[str, Any]]:
    """A plan asks for them once a row; to parse a paper's file takes 10 ms."""
    document = parse(text)
    paper = document.get("paper")
    if not isinstance(paper, dict) or not isinstance(paper.get("id"), str):
        raise PluginError(f"{here}: [paper] is missing, or its id is not text")
    tables = document.get("settings", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise PluginError(f"{here}: settings is not a list of tables, [[settings]]")
    for i, table in enumerate(tables, 1):
        _check_table(f"{here}: [[settings]] {i}", table)
    return [{**table, "paper": paper["id"]} for table in tables]


def sweeps(table: Mapping[str, Any]) -> list[dict[str, list[Any]]]:
    """The declared sweeps of a table of settings: of the settings that have several values, "swept", every combination;
    where the table says `sweep = "each alone"`, one setting after the other.
    """
    found = {name: entry["swept"] for name, entry in table.get("values", {}).items() if "swept" in entry}
    if table.get("sweep") == ALONE:
        return [{name: values} for name, values in found.items()]
    return [found] if found else []


def _check_table(where: str, table: Mapping[str, Any]) -> None:
    for key, required in {"method": True, "task": True, "protocol": True, "schedule": False, "summary": False}.items():
        if not isinstance(table.get(key), str) and (required or key in table):
            raise PluginError(f"{where}: {key} = {table.get(key)!r:.60} is not text")
    if table.get("sweep", ALONE) != ALONE:
        raise PluginError(f"{where}: sweep = {table['sweep']!r:.60} is not {ALONE!r}, which is all that may be said")
    values = table.get("values", {})
    if not isinstance(values, dict):
        raise PluginError(f"{where}: values is not a table")
    for name, entry in values.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("value"), str | int | float | bool):
            raise PluginError(f'{where}: "{name:.60}" is not {{ value = ..., provenance = ..., source = ... }}')
        if entry.get("provenance") not in PROVENANCES or not isinstance(entry.get("source", ""), str):
            raise PluginError(
                f'{where}: "{name:.60}": provenance is not one of {", ".join(PROVENANCES)}, or source is not text'
            )
        several = entry.get("swept", [entry["value"]])
        if not isinstance(several, list) or repr(entry["value"]) not in map(repr, several):  # 1 is not true
            raise PluginError(f'{where}: "{name:.60}": swept is not a list with {entry["value"]!r} in it')
        if not all(isinstance(value, str | int | float | bool) for value in several):
            raise PluginError(f'{where}: "{name:.60}": swept has a value that is no text, number, true or false')
