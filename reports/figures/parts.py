"""What several reports are made with: arrays of a run, groups that differ in few settings, names and looks."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.reporting.scoring import Group, Run, labels, load_fields, title

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.reporting.report import Request
    from harness.results.store import Store

COLOURS = ("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#ca9161", "#56b4e9", "#949494")
"""Told apart also by those who see fewer colours."""
STROKES = ("-", "--", ":")
CHARACTER = 0.075
"""Inches that a character of a legend takes, or less."""


def first_done(group: Group) -> Run | None:
    """The finished run with the lowest seed."""
    return min(group.done, key=lambda run: run.seed, default=None)


def arrays(store: Store, run: Run, *names: str) -> dict[str, NDArray[Any]] | None:
    """Arrays that the observer of a run kept, by name; None where one of them is not there."""
    from safetensors import safe_open

    path = store.results / run.path / "arrays.safetensors"
    if not path.is_file():
        return None
    with safe_open(path, "numpy") as file:
        if not set(names) <= set(file.keys()):
            return None
        return {name: file.get_tensor(name) for name in names}


def titled_fields(store: Store, request: Request) -> list[tuple[list[Group], str]]:
    """The fields that the request names, each with a title that no other has."""
    found = load_fields(store, request)
    everything = [group for field in found for group in field]
    return [(field, title(field, everything)) for field in found]


def families(groups: Iterable[Group], *free: str) -> dict[str, list[Group]]:
    """Groups that have the settings `free` and differ in nothing else, by the label that they share.

    A family has at least two members. Where the label of its method would be that of another family too, it says in
    which settings they differ.
    """
    found: dict[str, list[Group]] = {}
    for group in groups:
        if all(name in group.settings for name in free):
            found.setdefault(json.dumps([group.method, _without(group.settings, free)], sort_keys=True), []).append(
                group
            )
    kin = [members for members in found.values() if len(members) > 1]
    names = labels([replace(members[0], settings=_without(members[0].settings, free)) for members in kin])
    return {names[members[0].key]: members for members in kin}


def _without(settings: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}


def figure_name(report: str, group: Group, taken: Collection[str]) -> str:
    """The name of a field's figure; with the group's key where fields differ in settings of the task alone."""
    name = f"{report}-{group.task}-{group.protocol}-{group.budget.replace('=', '-')}-{group.chains}x"
    return f"{name}-{group.key[:8]}" if name in taken else name


def about(group: Group) -> dict[str, Any]:
    """The fields of a flat record that say what a group is."""
    return {
        "task": group.task, "task_version": group.task_version, "protocol": group.protocol, "method": group.method,
        "chains": group.chains, "budget": group.budget, "steps": group.steps,
    }  # fmt: skip


def looks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A colour and a stroke for each line by its name."""
    own = [{"color": colour, "linestyle": stroke} for stroke in STROKES for colour in COLOURS]
    return {name: own[k % len(own)] for k, name in enumerate(sorted(names))}


def name_figure(canvas: Any, heading: str) -> None:
    """The title over all panels, in as many lines as it needs."""
    canvas.suptitle("\n".join(textwrap.wrap(heading, int(canvas.get_figwidth() / 0.09))), fontsize="medium")


def name_panel(ax: Any, label: str, *more: str) -> None:
    """The title of a panel some 2.7 inches wide, in as many lines as it needs."""
    ax.set_title("\n".join([*textwrap.wrap(label, 36), *more]), fontsize="small")


def legend_height(names: Collection[str], width: float) -> float:
    """Inches that `legend_below` takes of a figure so wide."""
    return 0.25 + 0.19 * -(-len(names) // _columns(names, width))


def legend_below(canvas: Any, handles: Mapping[str, Any]) -> None:
    """A legend under all axes, in as many columns as its words leave room for."""
    columns = _columns(handles, canvas.get_figwidth())
    words = ["\n".join(textwrap.wrap(name, int(canvas.get_figwidth() / CHARACTER) - 8)) for name in handles]
    canvas.legend(
        list(handles.values()), words, loc="outside lower center", ncols=columns, frameon=False, fontsize="small"
    )


def _columns(names: Collection[str], width: float) -> int:
    widest = max((len(name) for name in names), default=1) * CHARACTER + 0.6
    return max(1, min(len(names), int(width / widest)))
