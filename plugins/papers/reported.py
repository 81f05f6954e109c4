"""The value that a paper printed for one of our rows, and whether the two match."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness import Estimate, Group, setting_text, settings_from
from plugins.papers.match import Match, match_cell

if TYPE_CHECKING:
    from harness import Store


SWEPT = "swept"
CHANGED = ("user", "tuned", SWEPT)
"""Provenances of settings that differ from the published ones."""
Cell = tuple[str, str, str, int, str]
"""method, task, protocol, chains, metric."""
UNREPRODUCIBLE: Final = "not reproducible as published"
EXECUTION: Final = frozenset({"run.compile", "task.precision", "task.by_cycle"})
"""Settings of rounding and recording, which no paper states; they never count as our choices."""


@dataclass(frozen=True)
class Reported:
    """A printed value. Its method, task, protocol, chains and metric are None if unknown.

    smallest_gap the smallest difference that the table's claims make in its column; without claims, between its cells
    correction, evidence  what was corrected in the label that was `printed_as`, and why
    uncertain    why it is not certain that this is what was printed
    obstacle     why it cannot be reproduced as published, whatever is run
    needs        what a run needs beyond a CPU
    cause        why ours differs, as far as it is known
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
    ours: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The value as printed: "18 ± 0.47", with an asterisk if its label is corrected."""
        mark = "*" if self.correction else ""
        return f"{self.value:g}{mark}" if self.error is None else f"{self.value:g} ± {self.error:g}{mark}"

    @property
    def place(self) -> Cell | None:
        """Its method, task, protocol, chains and metric; None if one is unknown."""
        found = (self.method, self.task, self.protocol, self.chains, self.metric)
        return None if None in found else found  # type: ignore[return-value]


def load_cells(store: Store) -> list[Reported]:
    """Return all printed values, in the order of the papers' files."""
    rows = store.rows("select * from reported_value where value is not null order by paper, i")
    gaps = _gaps(rows, store.rows("select * from claim where coalesce(kind, 'ordering') = 'ordering'"))
    own = own_choices(store)
    names = Reported.__dataclass_fields__.keys() - {"table", "row", "column", "error_kind", "smallest_gap", "ours"}
    return [
        Reported(
            **{name: row[name] for name in names},
            table=row["table_label"],
            row=row["row_label"],
            column=row["column_label"],
            error_kind=row["error_kind"] or "unknown",
            smallest_gap=gaps[_column(row)],
            ours=own(row["paper"], row["method"], row["task"], row["protocol"]),
        )
        for row in rows
    ]


def own_choices(store: Store) -> Callable[[str, str | None, str | None, str | None], tuple[str, ...]]:
    """Return a function that gives the choices marked as ours for a paper, method, task and protocol."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for row in store.rows("select * from choice where provenance = 'ours' order by all"):
        text = f"{row['name']}={row['value']}" if "." in row["name"] else f"{row['name']}: {row['value']}"
        found.setdefault((row["paper"], row["task"], row["protocol"], row["method"]), []).append(text)

    def of(paper: str, method: str | None, task: str | None, protocol: str | None) -> tuple[str, ...]:
        place = (paper, task, protocol)
        own, common = found.get((*place, method), []), found.get((*place, None), [])
        known = {setting_name(text) for text in own}
        return (*own, *(text for text in common if setting_name(text) not in known))

    return of


def earlier_settings(store: Store) -> Callable[[Group], list[str]]:
    """Return a function that gives a group's differences from the papers' current settings.

    Each one is a text: "schedule.temperature=1, now 0.01".
    """
    rows = store.rows("select * from choice where method is not null and name not like 'run.%' order by all")
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows:
        found.setdefault((row["method"], row["task"], row["protocol"]), {})[row["name"]] = row["value"]

    def of(group: Group) -> list[str]:
        stated = found.get((group.method, group.task, group.protocol), {})
        ours = {name: setting_text(group.settings.get(name)) for name in stated if name in group.provenance}
        return [f"{name}={value}, now {stated[name]}" for name, value in ours.items() if value != stated[name]]

    return of


def verdict(group: Group, estimate: Estimate, cell: Reported) -> Match | None:
    """Return whether the two match; None if ours was not run as published (another budget, or a setting of the user's).

    If the paper does not give a setting or another choice and ours replaces it, or if it is not certain what was
    printed, the verdict is "inconclusive", whatever the numbers.
    """
    if not as_published(group) or not estimate.by_seed or estimate.mean is None:
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
    if own := own_settings(group, cell.ours):
        numbers_only = "" if found.verdict == "inconclusive" else f"; judged by the numbers only: {found.verdict}"
        return Match("inconclusive", f"the paper does not give {', '.join(own)}{numbers_only}", difference)
    return found


def as_published(group: Group) -> bool:
    """Return whether a group was run at the papers' length, without a setting of the user's or of a declared sweep."""
    return group.budget == "paper" and not _changed(group)


def of_sweep(group: Group) -> bool:
    """Return whether a group is a point of a declared sweep, at the papers' length and otherwise as published."""
    return group.budget == "paper" and _changed(group) == {SWEPT}


def _changed(group: Group) -> set[str]:
    return {kind for name, kind in group.provenance.items() if kind in CHANGED and not _of_execution(group, name)}


def _of_execution(group: Group, name: str) -> bool:
    """Return whether a setting concerns execution only; a numeric precision is a prior's, as tasks once called it."""
    return name in EXECUTION and not isinstance(group.settings.get(name), float)


def own_settings(group: Group, stated: Sequence[str] = ()) -> list[str]:
    """Return the settings that the paper does not give and we chose: "schedule.step_size=0.002".

    They are taken from the runs' own record, and from `stated`, which the paper's files mark as ours.
    """
    recorded = [text for text in settings_from(group, "ours", "untuned") if setting_name(text) not in EXECUTION]
    known = {setting_name(text) for text in recorded}
    return recorded + [text for text in stated if setting_name(text) not in known]


def setting_name(text: str) -> str:
    """Return the name in a text like "schedule.b=0" or "start: the prior"."""
    return re.split(r"=|: ", text, maxsplit=1)[0]


def _column(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["paper"], row["table_label"], row["column_label"]


def _gaps(
    rows: Iterable[Mapping[str, Any]], claims: Iterable[Mapping[str, Any]]
) -> dict[tuple[str, str, str], float | None]:
    """Return the smallest gap of each column: of its table's claims, or without these between two of its cells."""
    cells = {(_column(row)[:2], _of(row)): row for row in rows}
    claimed: dict[tuple[str, str, str], set[float]] = {}
    for claim in claims:
        table = (claim["paper"], claim["table_label"])
        better = cells.get((table, _of({**claim, "method": claim["better"]})))
        other = {"protocol": claim["worse_protocol"], "chains": claim["worse_chains"]}
        changed = {name: value for name, value in other.items() if value is not None}
        worse = cells.get((table, _of({**claim, **changed, "method": claim["worse"]})))
        if better is not None and worse is not None and better["value"] != worse["value"]:
            claimed.setdefault(_column(better), set()).add(abs(better["value"] - worse["value"]))
    columns: dict[tuple[str, str, str], set[float]] = {}
    for row in rows:
        columns.setdefault(_column(row), set()).add(row["value"])
    return {
        column: min(claimed.get(column) or [b - a for a, b in itertools.pairwise(sorted(values))], default=None)
        for column, values in columns.items()
    }


def _of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["method"], row["task"], row["protocol"], row["chains"], row["metric"]
