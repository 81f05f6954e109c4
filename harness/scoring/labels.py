"""Names for rows and tables that leave nothing out: two groups of one method are told apart by what differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.scoring.groups import Group


def labels(field: Sequence[Group]) -> dict[str, str]:
    """Group key -> its method, with the settings in which groups of that method differ: "sgld (schedule.a=0.1)"."""
    peers: dict[str, list[Group]] = {}
    for group in field:
        peers.setdefault(group.method, []).append(group)
    differing = {method: _differing(groups) for method, groups in peers.items()}
    found: dict[str, str] = {}
    for group in field:
        names = [name for name in differing[group.method] if name in group.settings]
        own = [f"{name}={setting_text(group.settings.get(name))}" for name in names]
        found[group.key] = f"{group.method} ({', '.join(own)})" if own else group.method
    return found


def title(field: Sequence[Group], others: Sequence[Group] = ()) -> str:
    """What a table is of: task, version, protocol, chains, budget, steps; and the task's settings where `others`,
    the groups of the whole report, have the same task with other ones.
    """
    first = field[0]
    steps = sorted({group.steps for group in field})
    length = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    chains = "1 chain" if first.chains == 1 else f"{first.chains} chains"
    same_task = [group for group in others if group.task == first.task]
    own = [f"{n}={setting_text(first.settings.get(n))}" for n in _differing(same_task) if n.startswith("task.")]
    variant = f" ({', '.join(own)})" if own else ""
    named = first.budget.partition("=")[2]
    unit = "data passes" if first.budget.startswith("gradients=") else "seconds"
    budget = f"{_grouped(named)} {unit}, " if named else f"{first.budget} budget, "
    return (
        f"{first.task}@{first.protocol}{variant}, task version {first.task_version}: {budget}{length} steps, {chains}"
    )


def _grouped(number: str) -> str:
    """150000 as 150,000; what is no number, as another tool may have it in its records, as it is."""
    try:
        return f"{float(number):,.12g}"
    except ValueError:
        return number


def settings_from(group: Group, *kinds: str) -> list[str]:
    """The settings of these provenances: ["schedule.step_size=0.002"]."""
    names = [name for name, kind in sorted(group.provenance.items()) if kind in kinds]
    return [f"{name}={setting_text(group.settings.get(name))}" for name in names]


def _differing(groups: Sequence[Group]) -> list[str]:
    """The settings whose values are not the same in all groups; hashes only where nothing else tells them apart."""
    names = sorted({name for group in groups for name in group.settings})
    differing = [n for n in names if len({setting_text(group.settings.get(n)) for group in groups}) > 1]
    spoken = [name for name in differing if not is_hash(name)]
    apart = len({tuple(setting_text(g.settings.get(n)) for n in spoken) for g in groups}) == len(groups)
    return spoken if apart else differing


def is_hash(name: str) -> bool:
    """Whether a setting is the version of some code or data, which says nothing to a reader."""
    return name.endswith((" source", " data")) or name == "engine"


def setting_text(value: Any) -> str:
    """The value of a setting for people."""
    return f"{value:g}" if isinstance(value, float) else str(value)
