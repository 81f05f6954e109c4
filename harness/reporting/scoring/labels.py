"""Names of rows and tables. Groups of one method are distinguished by the settings that differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness.contracts.hookspecs import DEFAULT_SCHEDULE
from harness.contracts.randomness import ORDERS
from harness.contracts.user_files import IDENTIFIED
from harness.reporting.scoring.groups import Group, field_of
from harness.results.spec import QUICK_SEARCH, SEARCH_VERSION

USUAL = {"run.batch_order": ORDERS[0], "run.moved": False, "run.substeps": 1}
"""Settings that are named wherever they are not the usual ones."""
SHORT = (8, 16, 64)
"""Lengths of a shown hash. The first length that distinguishes it from the others is used."""


def labels(field: Sequence[Group]) -> dict[str, str]:
    """Return the label of each group by its key: the method, the settings that differ, and its marks, "sgld (n=10)".

    The order of minibatches, that theta is moved, and substeps are named wherever they are not the usual ones.
    No two groups with the same task, version, protocol, budget and number of chains have the same label. If settings do
    not distinguish them, the beginning of the group key does.
    """
    peers: dict[str, list[Group]] = {}
    for group in field:
        peers.setdefault(group.method, []).append(group)
    label_of: dict[str, str] = {}
    for method, groups in peers.items():
        unusual = [n for n, usual in USUAL.items() if any(group.settings.get(n, usual) != usual for group in groups)]
        texts = {name: _texts(groups, name) for name in [*_differing(groups), *unusual]}
        for i, group in enumerate(groups):
            distinct = [f"{name}={text[i]}" for name, text in texts.items() if name in group.settings]
            distinct += [mark for mark in marks(group) if mark not in distinct]
            label_of[group.key] = f"{method} ({', '.join(distinct)})" if distinct else method
    places = {group.key: (field_of(group)[:-1], label_of[group.key]) for group in field}
    for (field_key, label), times in Counter(places.values()).items():
        if times > 1:
            alike = [key for key, labelled in places.items() if labelled == (field_key, label)]
            size = next(n for n in SHORT if len({key[:n] for key in alike}) == times)
            before = f"{label[:-1]}, " if label.endswith(")") else f"{label} ("
            label_of |= {key: f"{before}group={key[:size]})" for key in alike}
    return label_of


def marks(group: Group) -> list[str]:
    """Return what a row's name has to say: that it is no sampler, its schedule unless implied, how it was tuned."""
    schedule = group.settings.get("schedule", DEFAULT_SCHEDULE)
    return [
        *(["baseline"] if group.baseline else ["optimiser"] if group.optimiser else []),
        *([f"schedule={schedule}"] if schedule != DEFAULT_SCHEDULE and not group.schedule_in_name else []),
        *filter(None, [tuned_otherwise(group)]),
    ]


def tuned_otherwise(group: Group) -> str:
    """Return "tuned at quick" for settings tuned at another budget, or that other rules chose them; else ""."""
    if group.tuning_version == QUICK_SEARCH:
        return "quick search"
    if 0 < group.tuning_version < SEARCH_VERSION:
        return "tuned by earlier rules"
    return f"tuned at {group.tuning.budget}" if group.tuning and group.tuning.budget != group.budget else ""


def title(field: Sequence[Group], others: Sequence[Group] = ()) -> str:
    """Return the title of a field's table: task, version, protocol, chains, budget, steps.

    The title also has the task's settings that differ from those of `others`, the groups of the whole report, and the
    version of the task's code if there are runs of several.
    """
    first = field[0]
    steps = sorted({group.steps for group in field})
    length = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    chains = "1 chain" if first.chains == 1 else f"{first.chains} chains"
    same_task = [group for group in others if group.task == first.task]
    index = next((i for i, group in enumerate(same_task) if group is first), 0)
    names = [n for n in _differing(same_task) if n.startswith(("task.", "run.moved"))]
    distinct = [f"{n}={_texts(same_task, n)[index]}" for n in names]
    distinct += [first.task_code.text] if first.task_code else []
    variant = f" ({', '.join(distinct)})" if distinct else ""
    named = first.budget.partition("=")[2]
    unit = "data passes" if first.budget.startswith("passes=") else "seconds"
    budget = f"{_grouped(named)} {unit}, " if named else f"{first.budget} budget, "
    return (
        f"{first.task}@{first.protocol}{variant}, task version {first.task_version}: {budget}{length} steps, {chains}"
    )


def _grouped(number: str) -> str:
    """Return a number such as 150000 as 150,000. Other texts, which another tool may record, are not changed."""
    try:
        return f"{float(number):,.12g}"
    except ValueError:
        return number


def settings_from(group: Group, *kinds: str) -> list[str]:
    """Return the settings that have one of these provenances: ["schedule.step_size=0.002"]."""
    names = [name for name, kind in sorted(group.provenance.items()) if kind in kinds]
    return [f"{name}={setting_text(group.settings.get(name))}" for name in names]


def _differing(groups: Sequence[Group]) -> list[str]:
    """Return the settings whose values differ between groups; hashes only if no other settings distinguish them."""
    names = sorted({name for group in groups for name in group.settings})
    differing = [name for name in names if len({_exact(group, name) for group in groups}) > 1]
    readable = [name for name in differing if not is_hash(name)]
    apart = len({tuple(_exact(group, name) for name in readable) for group in groups}) == len(groups)
    return readable if apart else differing


def _texts(groups: Sequence[Group], name: str) -> list[str]:
    """Return the values of a setting for people, in full if different values have equal short forms."""
    exact = [_exact(group, name) for group in groups]
    whole = [setting_text(group.settings.get(name)) for group in groups]
    for short in ([text[:size] for text in whole] for size in (SHORT if is_hash(name) else (None,))):
        if len(set(short)) == len(set(exact)):
            return short
    return exact


def _exact(group: Group, name: str) -> str:
    """Return a value as text, or "" if there is none. 1, 1.0, true and "1" give four different texts."""
    return json.dumps(group.settings[name], sort_keys=True) if name in group.settings else ""


def is_hash(name: str) -> bool:
    """Return whether a setting is the version of code or data, which does not help a reader."""
    return name.endswith((" source", " data")) or name in {"engine", "key version"}


def setting_text(value: Any) -> str:
    """Return the value of a setting for people; of the checksum of a file, the beginning."""
    if isinstance(value, str) and IDENTIFIED.fullmatch(value):
        return value[:19]
    return f"{value:g}" if isinstance(value, float) else str(value)
