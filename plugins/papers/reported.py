"""The value that a paper printed for one of our rows, and whether the two match, by the rule of RULES.md."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from harness import statistics
from harness.reports import Estimate, Group, setting_text
from plugins.papers.files import Choice, PaperFile

Verdict = Literal["match", "mismatch", "inconclusive", "not reproducible as published"]
ErrorKind = Literal["sd", "se", "unknown"]
_ROUNDING = 1e-12

SWEPT = "swept"
CHANGED = ("user", "tuned", "one-setting", SWEPT)
"""Provenances of settings that differ from the published ones."""
UNREPRODUCIBLE: Final = "not reproducible as published"
OUTSIDE: Final = "not a sampler of this tool"
COMPILE: Final = "run.compile"
"""The setting of the mode of execution."""


@dataclass(frozen=True)
class Match:
    """The verdict on a cell, with the reason in words; difference = our mean - theirs."""

    verdict: Verdict
    reason: str
    difference: float


def match_cell(
    ours: ArrayLike,
    theirs: float,
    error: float | None,
    error_kind: ErrorKind,
    runs: int,
    smallest_gap: float | None,
    level: float = 0.95,
) -> Match:
    """Compare our values (n,), one per seed, with a printed mean +- error over `runs` runs, all in one unit.

    mismatch: |difference| > t_Welch sqrt(our se^2 + their se^2). match: no mismatch, and our half-width t s / sqrt(n)
    is at most half of `smallest_gap`, the smallest difference that the table claims in that column. inconclusive: no
    mismatch, but ours is too wide to decide or no gap is given; or there is only one seed, or a value that is not
    finite. error_kind "unknown" is tested as sd and as se, and both must give the same result. A cell printed without
    an error (None) is assumed to vary from run to run as ours does. Raise `ValueError` for a negative error, runs < 1,
    or an error over fewer than 2 runs.
    """
    x = statistics.as_values(ours)
    if runs < 1 or (error is not None and (error < 0 or runs < 2)):
        raise ValueError(f"error {error} over {runs} runs is not an error of a mean")
    difference = float(x.mean()) - theirs
    if len(x) == 1:
        return Match("inconclusive", "one run gets no verdict", difference)
    if not np.isfinite(x).all():
        return Match("inconclusive", "one of our values is not finite", difference)
    if error is None and x.min() == x.max():
        return Match("inconclusive", "neither value has an error", difference)
    our_se = float(x.std(ddof=1)) / float(np.sqrt(len(x)))
    bounds = {
        reading: statistics.t_multiplier(df, level) * float(np.hypot(our_se, se)) + _ROUNDING * abs(theirs)
        for reading, se, df in _readings(our_se, len(x), error, error_kind, runs)
    }
    half_width = statistics.t_multiplier(len(x) - 1, level) * our_se
    return Match(*_judge(abs(difference), bounds, half_width, smallest_gap), difference)


def _judge(
    distance: float, bounds: dict[str, float], half_width: float, smallest_gap: float | None
) -> tuple[Verdict, str]:
    """Return the verdict from |difference|, its bound by each reading of the printed error, and our precision."""
    within = [reading for reading, bound in bounds.items() if distance <= bound]
    described = " and ".join(f"{bound:.3g} ({reading})" for reading, bound in bounds.items())
    if not within:
        return "mismatch", f"|difference| {distance:.3g} exceeds {described}"
    if len(within) < len(bounds):
        return (
            "inconclusive",
            f"|difference| {distance:.3g} is within bounds only if {within[0]}: {described}",
        )
    if smallest_gap is None:
        return "inconclusive", "the table claims no gap to judge our precision by"
    if half_width > smallest_gap / 2:
        return "inconclusive", f"our half-width {half_width:.3g} exceeds half the gap of {smallest_gap:.3g}"
    return "match", f"|difference| {distance:.3g} is within {described}"


def _readings(our_se: float, n: int, error: float | None, kind: ErrorKind, runs: int) -> list[tuple[str, float, float]]:
    """Return (assumption, their se, degrees of freedom) for each reading of the printed error."""
    if error is None:
        return [("no error printed, taken as ours", our_se * float(np.sqrt(n / runs)), n - 1)]
    errors = {"sd": error / float(np.sqrt(runs)), "se": error}
    kinds = list(errors) if kind == "unknown" else [kind]
    return [(f"+- is {k}", errors[k], _welch_df(our_se, n, errors[k], runs)) for k in kinds]


def _welch_df(se_a: float, n_a: int, se_b: float, n_b: int) -> float:
    if se_a == 0 and se_b == 0:
        return n_a + n_b - 2
    share = se_a**2 / (se_a**2 + se_b**2)
    return 1.0 / (share**2 / (n_a - 1) + (1 - share) ** 2 / (n_b - 1))


@dataclass(frozen=True)
class Reported:
    """A printed value. Its method, task, protocol, chains and metric are None if unknown.

    smallest_gap the smallest difference that the table's claims make in its column; without claims, between its cells
    correction, evidence  what was corrected in the label that was `printed_as`, and why
    uncertain    why it is not certain that this is what was printed
    obstacle     why it cannot be reproduced as published, whatever is run
    outside      what its row is, if it is not a sampler of this tool: it is never run, and not counted with the others
    needs        what a run needs beyond a CPU
    core_hours   of one CPU core, for the runs that are missing
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
    outside: str | None
    needs: str | None
    core_hours: float | None
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
    choices_of = own_choices(files)
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
                ours=choices_of(file.paper, cell["method"], cell["task"], cell["protocol"]),
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
        setup = (paper, task, protocol)
        of_method, common = texts.get((*setup, method), []), texts.get((*setup, None), [])
        known = {setting_name(text) for text in of_method}
        return (*of_method, *(text for text in common if setting_name(text) not in known))

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
    match = match_cell(list(estimate.by_seed.values()), cell.value, error, kind, runs, cell.smallest_gap)
    if unstated := own_settings(group, cell.ours, cell.execution):
        numbers_only = "" if match.verdict == "inconclusive" else f"; judged by the numbers only: {match.verdict}"
        return Match("inconclusive", f"the paper does not give {', '.join(unstated)}{numbers_only}", difference)
    return match


def as_published(group: Group, execution: Collection[str]) -> bool:
    """Return whether a group was run at the papers' length, at its settings."""
    return group.budget == "paper" and not _changed(group, execution)


def of_sweep(group: Group, execution: Collection[str]) -> bool:
    """Return whether a group is a point of a declared sweep, at the papers' length and otherwise as published."""
    return group.budget == "paper" and _changed(group, execution) == {SWEPT}


def _changed(group: Group, execution: Collection[str]) -> set[str]:
    """Return the provenances by which a group differs from the published settings, those of execution left out.

    A numeric precision is that of a prior, as tasks once called it.
    """
    of_execution = {name for name in execution if not isinstance(group.settings.get(name), float)}
    return {kind for name, kind in group.provenance.items() if kind in CHANGED and name not in of_execution}


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
