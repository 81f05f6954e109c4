"""The value that a paper printed for one of our rows, and whether the two match."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.reports import Estimate, Group, setting_text
from plugins.papers.files import Choice, PaperFile
from plugins.papers.match import Match, match_cell

SWEPT = "swept"
CHANGED = ("user", "tuned", "one-setting", SWEPT)
"""Provenances of settings that differ from the published ones."""
UNREPRODUCIBLE: Final = "not reproducible as published"
COMPILE: Final = "run.compile"
"""The setting of the mode of execution."""


@dataclass(frozen=True)
class Reported:
    """A printed value. Its method, task, protocol, chains and metric are None if unknown.

    smallest_gap the smallest difference that the table's claims make in its column; without claims, between its cells
    correction, evidence  what was corrected in the label that was `printed_as`, and why
    uncertain    why it is not certain that this is what was printed
    obstacle     why it cannot be reproduced as published, whatever is run
    needs        what a run needs beyond a CPU
    cause        why ours differs, as far as it is known
    execution    settings of rounding and recording, which no paper states; they never count as our choices
    ours         choices of its runs that the paper does not state: "schedule.b=0", "start: uniform on [-5, 5]^2"
    """

    paper: str
    table: str
    row: str
    column: str
    method: str | None
    task: str | None
    protocol: str | None
    chains: int | None
    metric: str | None
    direction: str | None
    value: float
    error: float | None
    error_kind: str
    n: int | None
    printed_as: str | None
    correction: str | None
    evidence: str | None
    uncertain: str | None
    obstacle: str | None
    needs: str | None
    cause: str | None
    notes: str | None
    smallest_gap: float | None
    execution: frozenset[str]
    ours: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The value as printed: "18 ± 0.47", with an asterisk if its label is corrected."""
        mark = "*" if self.correction else ""
        return f"{self.value:g}{mark}" if self.error is None else f"{self.value:g} ± {self.error:g}{mark}"


def load_cells(files: Sequence[PaperFile]) -> list[Reported]:
    """Return all printed values, in the order of the papers' files."""
    own = own_choices(files)
    cells = []
    for file in files:
        printed = [cell for cell in file.cells if cell["value"] is not None]
        gaps = _gaps(printed, [claim for claim in file.claims if claim["kind"] in {None, "ordering"}])
        cells += [
            Reported(
                **{**cell, "error_kind": cell["error_kind"] or "unknown"},
                paper=file.paper,
                smallest_gap=gaps[_column(cell)],
                execution=file.execution | {COMPILE},
                ours=own(file.paper, cell["method"], cell["task"], cell["protocol"]),
            )
            for cell in printed
        ]
    return cells


def own_choices(files: Sequence[PaperFile]) -> Callable[[str, str | None, str | None, str | None], tuple[str, ...]]:
    """Return a function that gives the choices marked as ours for a paper, method, task and protocol."""
    texts: dict[tuple[Any, ...], list[str]] = {}
    for paper, choice in _choices(files):
        if choice.provenance == "ours":
            text = f"{choice.name}={choice.value}" if "." in choice.name else f"{choice.name}: {choice.value}"
            texts.setdefault((paper, choice.task, choice.protocol, choice.method), []).append(text)

    def of(paper: str, method: str | None, task: str | None, protocol: str | None) -> tuple[str, ...]:
        place = (paper, task, protocol)
        own, common = texts.get((*place, method), []), texts.get((*place, None), [])
        known = {setting_name(text) for text in own}
        return (*own, *(text for text in common if setting_name(text) not in known))

    return of


def earlier_settings(files: Sequence[PaperFile]) -> Callable[[Group], list[str]]:
    """Return a function that gives a group's differences from the papers' current settings.

    Each one is a text: "schedule.temperature=1, now 0.01".
    """
    current: dict[tuple[str, str, str], dict[str, str]] = {}
    for _, choice in _choices(files):
        if choice.method is not None and not choice.name.startswith("run."):
            current.setdefault((choice.method, choice.task, choice.protocol), {})[choice.name] = choice.value

    def of(group: Group) -> list[str]:
        stated = current.get((group.method, group.task, group.protocol), {})
        ours = {name: setting_text(group.settings.get(name)) for name in stated if name in group.provenance}
        return [f"{name}={value}, now {stated[name]}" for name, value in ours.items() if value != stated[name]]

    return of


def _choices(files: Sequence[PaperFile]) -> list[tuple[str, Choice]]:
    """Return the choices of all papers, each with its paper, by paper, name and value."""
    choices = [(file.paper, choice) for file in files for choice in file.choices]
    return sorted(choices, key=lambda pair: (pair[0], pair[1].name, pair[1].value))


def verdict(group: Group, estimate: Estimate, cell: Reported) -> Match | None:
    """Return whether the two match; None if ours was not run as published (another budget, or a setting of the user's).

    If the paper does not give a setting or another choice and ours replaces it, or if it is not certain what was
    printed, the verdict is "inconclusive", whatever the numbers.
    """
    if not as_published(group, cell.execution) or not estimate.by_seed or estimate.mean is None:
        return None
    difference = estimate.mean - cell.value
    if cell.obstacle:
        return Match(UNREPRODUCIBLE, cell.obstacle, difference)
    if group.diverged or group.failed:
        return Match("inconclusive", "not all of our seeds have a value", difference)
    if cell.uncertain:
        return Match("inconclusive", cell.uncertain, difference)
    kind: Any = cell.error_kind if cell.error_kind in {"sd", "se"} else "unknown"
    runs = max(cell.n or 1, 1)
    error = cell.error if runs > 1 and cell.error is not None and cell.error >= 0 else None
    found = match_cell(list(estimate.by_seed.values()), cell.value, error, kind, runs, cell.smallest_gap)
    if own := own_settings(group, cell.ours, cell.execution):
        numbers_only = "" if found.verdict == "inconclusive" else f"; judged by the numbers only: {found.verdict}"
        return Match("inconclusive", f"the paper does not give {', '.join(own)}{numbers_only}", difference)
    return found


def as_published(group: Group, execution: Collection[str]) -> bool:
    """Return whether a group was run at the papers' length, at its settings."""
    return group.budget == "paper" and not _changed(group, execution)


def of_sweep(group: Group, execution: Collection[str]) -> bool:
    """Return whether a group is a point of a declared sweep, at the papers' length and otherwise as published."""
    return group.budget == "paper" and _changed(group, execution) == {SWEPT}


def _changed(group: Group, execution: Collection[str]) -> set[str]:
    return {
        kind for name, kind in group.provenance.items() if kind in CHANGED and not _of_execution(group, name, execution)
    }


def _of_execution(group: Group, name: str, execution: Collection[str]) -> bool:
    """Return whether a setting concerns execution only; a numeric precision is a prior's, as tasks once called it."""
    return name in execution and not isinstance(group.settings.get(name), float)


def own_settings(group: Group, stated: Sequence[str], execution: Collection[str]) -> list[str]:
    """Return the settings that the paper does not give and we chose: "schedule.step_size=0.002".

    They are taken from the runs' own record, and from `stated`, which the paper's files mark as ours; a default of a
    class is ours if they do.
    """
    marked = {setting_name(text) for text in stated}
    ours = [
        name
        for name, kind in sorted(group.provenance.items())
        if name not in execution and (kind in {"ours", "untuned"} or (kind == "default" and name in marked))
    ]
    recorded = [f"{name}={setting_text(group.settings.get(name))}" for name in ours]
    return recorded + [text for text in stated if setting_name(text) not in ours]


def setting_name(text: str) -> str:
    """Return the name in a text like "schedule.b=0" or "start: the prior"."""
    return re.split(r"=|: ", text, maxsplit=1)[0]


def _column(cell: Mapping[str, Any]) -> tuple[str, str]:
    return cell["table"], cell["column"]


def _gaps(
    cells: Sequence[Mapping[str, Any]], claims: Iterable[Mapping[str, Any]]
) -> dict[tuple[str, str], float | None]:
    """Return the smallest gap of each column: of its table's claims, or without these between two of its cells."""
    printed = {(cell["table"], _of(cell)): cell for cell in cells}
    claimed: dict[tuple[str, str], set[float]] = {}
    for claim in claims:
        better = printed.get((claim["table"], _of({**claim, "method": claim["better"]})))
        other = {"protocol": claim["worse_protocol"], "chains": claim["worse_chains"]}
        changed = {name: value for name, value in other.items() if value is not None}
        worse = printed.get((claim["table"], _of({**claim, **changed, "method": claim["worse"]})))
        if better is not None and worse is not None and better["value"] != worse["value"]:
            claimed.setdefault(_column(better), set()).add(abs(better["value"] - worse["value"]))
    columns: dict[tuple[str, str], set[float]] = {}
    for cell in cells:
        columns.setdefault(_column(cell), set()).add(cell["value"])
    return {
        column: min(claimed.get(column) or [b - a for a, b in itertools.pairwise(sorted(values))], default=None)
        for column, values in columns.items()
    }


def _of(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    return cell["method"], cell["task"], cell["protocol"], cell["chains"], cell["metric"]
