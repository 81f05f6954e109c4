"""What a paper printed for a row of ours, and whether the two agree."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.scoring.estimates import Estimate
from harness.scoring.groups import Group
from harness.scoring.labels import settings_from
from harness.statistics import Match, match_cell

if TYPE_CHECKING:
    from harness.store import Store

Cell = tuple[str, str, str, int, str]
"""method, task, protocol, chains, metric."""


@dataclass(frozen=True)
class Reported:
    """A printed value; `smallest_gap` is the least difference between two cells of its column."""

    paper: str
    table: str
    row: str
    column: str
    value: float
    error: float | None
    error_kind: str
    n: int | None
    printed_as: str | None
    correction: str | None
    evidence: str | None
    notes: str | None
    smallest_gap: float | None

    @property
    def text(self) -> str:
        """The value as printed: "18 ± 0.47"; an asterisk where its label is corrected."""
        mark = "*" if self.correction else ""
        return f"{self.value:g}{mark}" if self.error is None else f"{self.value:g} ± {self.error:g}{mark}"


def load_reported(store: Store) -> dict[Cell, Reported]:
    """All printed values that belong to a metric of a task. Of several for one cell, the first paper's first."""
    rows = store.rows("select * from reported_value where value is not null order by paper, i")
    columns: dict[tuple[str, str, str], set[float]] = {}
    for row in rows:
        columns.setdefault(_column(row), set()).add(row["value"])
    found: dict[Cell, Reported] = {}
    for row in rows:
        cell = (row["method"], row["task"], row["protocol"], row["chains"], row["metric"])
        if None not in cell:
            found.setdefault(cell, _reported(row, columns[_column(row)]))
    return found


def cell_of(group: Group, metric: str) -> Cell:
    """Where a printed value of this group's metric would stand."""
    return group.method, group.task, group.protocol, group.chains, metric


def verdict(group: Group, estimate: Estimate, cell: Reported) -> Match | None:
    """Do the two match? None where ours was not run as published: another budget, or a setting of the user's.

    Where the paper does not give a setting and ours stands in, the verdict is "inconclusive", whatever the numbers.
    """
    if group.budget != "paper" or "user" in group.provenance.values() or not estimate.by_seed or estimate.mean is None:
        return None
    difference = estimate.mean - cell.value
    if group.diverged or group.failed:
        return Match("inconclusive", "not all of our seeds have a value", difference)
    if own := own_settings(group):
        return Match("inconclusive", f"the paper does not give {', '.join(own)}", difference)
    kind: Any = cell.error_kind
    runs = cell.n or 1
    error = cell.error if runs > 1 else None
    return match_cell(list(estimate.by_seed.values()), cell.value, error, kind, runs, cell.smallest_gap)


def own_settings(group: Group) -> list[str]:
    """The settings that the paper does not give and for which ours stand in: "schedule.step_size=0.002"."""
    return settings_from(group, "ours", "untuned")


def _column(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["paper"], row["table_label"], row["column_label"]


def _reported(row: dict[str, Any], column: Iterable[float]) -> Reported:
    values = sorted(column)
    gaps = [b - a for a, b in itertools.pairwise(values)]
    return Reported(
        paper=row["paper"],
        table=row["table_label"],
        row=row["row_label"],
        column=row["column_label"],
        value=row["value"],
        error=row["error"],
        error_kind=row["error_kind"] or "unknown",
        n=row["n"],
        printed_as=row["printed_as"],
        correction=row["correction"],
        evidence=row["evidence"],
        notes=row["notes"],
        smallest_gap=min(gaps, default=None),
    )
