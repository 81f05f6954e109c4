"""Select groups by a word: a method, a row's label in a report, or the beginning of a group or run key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness import UsageError
from harness.reporting import is_hash
from harness.reports import Group, Store, labels, suggestions

KEY = re.compile(r"[0-9a-fA-F]{6,64}")


@dataclass(frozen=True)
class Selector:
    """One side of a comparison: the given `word`, its method, and the group key or the label if the word is one."""

    word: str
    method: str
    key: str = ""
    label: str = ""


def side(store: Store, word: str, offered: Iterable[str]) -> Selector:
    """Return what a word selects among the runs of a store. `offered` are the methods that could be run.

    Raises `UsageError` with near matches for an unknown name, and for a key that matches several groups.
    """
    seen = {row["method"] for row in store.rows("select distinct method from result")}
    if word in seen:
        return Selector(word, word)
    if KEY.fullmatch(word):
        return _by_key(store, word.lower())
    method = word.partition(" (")[0]
    if method in seen and word.endswith(")"):
        return Selector(word, method, label=word)
    if word in set(offered):
        raise UsageError(f"{word} has no finished run in {store.results}; bench run --sampler {word} --task ...")
    raise UsageError(f"there is no row {word!r:.80} in {store.results}{suggestions(word, seen)}")


def members(selector: Selector, field: Sequence[Group]) -> tuple[list[Group], list[Group]]:
    """Return the groups of a field that a selector selects, and the groups of older code.

    A method's name selects the newest of the groups that differ only in their code.
    """
    if selector.key:
        return [group for group in field if group.key == selector.key], []
    if selector.label:
        named = labels(field)
        return [group for group in field if named[group.key] == selector.label], []
    newest: dict[str, Group] = {}
    groups = [group for group in field if group.method == selector.method]
    for group in sorted(groups, key=_latest):
        newest[_settings(group)] = group
    chosen = [group for group in groups if group in newest.values()]
    return chosen, [group for group in groups if group not in chosen]


def _by_key(store: Store, prefix: str) -> Selector:
    rows = store.rows(
        "select distinct group_key, method, task, protocol from result "
        "where starts_with(group_key, ?) or starts_with(run_key, ?) order by all",
        [prefix, prefix],
    )
    if len(rows) == 1:
        return Selector(prefix, rows[0]["method"], key=rows[0]["group_key"])
    if rows:
        several = ", ".join(f"{r['group_key'][:12]} ({r['method']} on {r['task']}@{r['protocol']})" for r in rows[:5])
        raise UsageError(f"{prefix} matches {len(rows)} rows; give more digits: {several}")
    raise UsageError(f"there is no run or row {prefix} in {store.results}; `bench ls runs` lists them")


def _settings(group: Group) -> str:
    """Return the settings of a group, without the versions of code, as JSON."""
    return json.dumps({name: value for name, value in group.settings.items() if not is_hash(name)}, sort_keys=True)


def _latest(group: Group) -> str:
    return max(run.attempt for run in group.runs)
