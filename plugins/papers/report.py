"""The papers cell by cell: the printed value, ours, whether they match and if not why; then the claims."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from harness import Result
from harness.reports import (
    Column,
    Records,
    Report,
    Request,
    Store,
    Table,
    number,
    settings_from,
    with_interval,
)
from harness.runs.settings import source_of_budget
from plugins.papers.claims import UNINFORMATIVE, Ours
from plugins.papers.derived import estimate_of
from plugins.papers.ledger import NOT_RUN, CellEntry, ClaimEntry, Reproduction, reproduction
from plugins.papers.reported import OUTSIDE

CELL_VERDICTS = ("match", "mismatch", "inconclusive", "not reproducible as published", "not run")
MAX_NAMES = 3
FINDINGS = (
    "holds", "holds at our settings", "fails", "fails at our settings", "undecided", "vacuous", UNINFORMATIVE,
    "not run",
)  # fmt: skip
RULE = (
    "match: within Welch's bound of the printed value, and our 95 % interval is narrow enough for the table's smallest "
    "claimed gap; inconclusive: neither is shown; one run gets no verdict"
)
CLAIM_RULE = (
    "a claim holds or fails where p < .05 by Holm over the claims of its table: a paired t over seeds (normal "
    "differences assumed) from 3 seeds; equal is judged by the 95 % interval of the difference; a share "
    "fails where Fisher's exact test finds it different from the printed one, and holds within its margin on 10 seeds "
    "or more"
)
OWN_RULE = (
    "at our settings: the runs rest on a setting or another choice that the paper does not state and that is ours, so "
    "what holds or fails is a finding of our own; a cell of that kind is inconclusive at best"
)
OURS = "they depend on our choices"
VACUOUS_RULE = "vacuous: that a method never succeeds, where the methods that should succeed fail as well"
UNINFORMATIVE_RULE = (
    f"{UNINFORMATIVE}: the baseline has an effective sample size below the number that its file declares, so that any "
    "other value would be larger"
)
OUTSIDE_RULE = f"{OUTSIDE}: printed for models of other kinds, never run, and not counted among the cells"
RULES = (RULE, CLAIM_RULE, OWN_RULE, VACUOUS_RULE, UNINFORMATIVE_RULE, OUTSIDE_RULE)


class ReproductionLedger(Report):
    """A summary; the cells and claims of each table; then, without a verdict, declared sweeps and other budgets.

    `paper` and `tables` select a paper and some of its tables.
    """

    name: ClassVar[str] = "reproduction"

    def __init__(self, paper: str | None = None, tables: Sequence[str] = ()) -> None:
        self.paper = paper
        self.tables = tables

    def build(self, store: Store, request: Request) -> Result:
        ledger = reproduction(store, request, self.paper, self.tables)
        tables = [_summary(ledger)] if ledger.cells or ledger.claims else []
        for paper, label in _places(ledger):
            cells = [entry for entry in (*ledger.cells, *ledger.outside) if _table_of(entry) == (paper, label)]
            claims = [entry for entry in ledger.claims if _table_of(entry) == (paper, label)]
            tables += [_cells(f"{paper}, {label}", cells)] if cells else []
            tables += [_claims(f"{paper}, {label}: claims", claims)] if claims else []
            tables += _related_values(f"{paper}, {label}: related values", claims)
        others = [*_tried(ledger), *_others(store, ledger)]
        return Result(tables=[*tables, *others], records=Records(lambda: _records(ledger)), notes=ledger.notes)


def _table_of(entry: CellEntry | ClaimEntry) -> tuple[str, str]:
    subject = entry.cell if isinstance(entry, CellEntry) else entry.claim
    return subject.paper, subject.table


def _places(ledger: Reproduction) -> list[tuple[str, str]]:
    """Return the tables, paper by paper in the order of the papers' files."""
    entries: list[CellEntry | ClaimEntry] = [*ledger.cells, *ledger.outside, *ledger.claims]
    places = dict.fromkeys(map(_table_of, entries))
    return sorted(places, key=lambda pair: pair[0])


def _summary(ledger: Reproduction) -> Table:
    rows = []
    for paper, label in _places(ledger):
        cells: Counter[str] = Counter(e.verdict for e in ledger.cells if _table_of(e) == (paper, label))
        claims = Counter(e.kind for e in ledger.claims if _table_of(e) == (paper, label))
        outside = sum(_table_of(e) == (paper, label) for e in ledger.outside)
        rows.append(_counts(paper, label, cells, outside, claims))
    all_cells: Counter[str] = Counter(e.verdict for e in ledger.cells)
    all_claims = Counter(e.kind for e in ledger.claims)
    rows.append(_counts("all", "", all_cells, len(ledger.outside), all_claims))
    names = ["cells", *CELL_VERDICTS, OUTSIDE, "claims", *FINDINGS[:-1]]
    waiting = [entry for entry in ledger.cells if entry.verdict == NOT_RUN]
    inconclusive = sum(bool(entry.cell.ours) for entry in waiting)
    at_best = (
        f"{inconclusive} of the {len(waiting)} cells that are not run are inconclusive at best, whatever is run: {OURS}"
    )
    shape = [Column("paper", "paper"), Column("table", "table")]
    shape += [Column(name, name, "right", lambda n: str(n) if n else "-") for name in names]
    shape.append(Column("claims not run", "claims not run", "right", lambda n: str(n) if n else "-"))
    notes = [*RULES, *([at_best] if inconclusive else [])]
    return Table("Reproduction: cells and claims by verdict", shape, rows, notes, keys=2)


def _counts(paper: str, label: str, cells: Counter[str], outside: int, claims: Counter[str]) -> dict[str, Any]:
    return {
        "paper": paper, "table": label, "cells": cells.total(), "claims": claims.total(),
        **{name: cells[name] for name in CELL_VERDICTS}, OUTSIDE: outside,
        **{name: claims[name] for name in FINDINGS[:-1]}, "claims not run": claims["not run"],
    }  # fmt: skip


def _cells(title: str, entries: Sequence[CellEntry]) -> Table:
    columns: dict[str, Callable[[CellEntry], str]] = {
        "row": lambda e: e.cell.row,
        "column": lambda e: e.cell.column,
        "of": lambda e: _of(e.cell.method, e.cell.task, e.cell.protocol, e.cell.chains),
        "reported": lambda e: e.cell.text,
        "ours": lambda e: _value(e.ours),
        "seeds": lambda e: str(len(e.ours.group.runs)) if e.ours else "-",
        "verdict": lambda e: e.text,
        "why": lambda e: e.reason,
    }
    notes = _merged([(f"{e.cell.row}, {e.cell.column}", words) for e in entries for words in _notes(e)], len(entries))
    return _table(title, columns, entries, {"reported", "ours", "seeds"}, notes, keys=2)


def _notes(entry: CellEntry) -> list[str]:
    cell = entry.cell
    notes = []
    if cell.correction:
        notes += [f"* printed as {cell.printed_as}, read as {cell.correction}", f"evidence: {cell.evidence}"]
    if cell.obstacle:
        notes.append(f"not reproducible as published: {cell.obstacle}")
    if cell.uncertain:
        notes.append(f"uncertain: {cell.uncertain}")
    if cell.cause and entry.verdict not in {"match", NOT_RUN}:
        notes.append(f"cause: {cell.cause}")
    if cell.notes:
        notes.append(cell.notes)
    return notes


def _claims(title: str, entries: Sequence[ClaimEntry]) -> Table:
    columns: dict[str, Callable[[ClaimEntry], str]] = {
        "claim": lambda e: e.claim.statement,
        "ours": lambda e: " against ".join(_value(side) for side in e.ours) if any(e.ours) else "-",
        "difference": lambda e: number(e.judged.difference) if e.judged and e.judged.difference is not None else "-",
        "seeds": lambda e: str(e.judged.n) if e.judged else "-",
        "p": lambda e: f"{e.judged.p:.2g}" if e.judged and e.judged.p is not None else "-",
        "finding": lambda e: e.text,
        "why": lambda e: e.reason,
    }
    remarks = []
    for entry in entries:
        claim = entry.claim
        if claim.cause and entry.finding in {"fails", "undecided", "vacuous", UNINFORMATIVE}:
            remarks.append((claim.statement, f"cause: {claim.cause}"))
        remarks += [(claim.statement, claim.notes)] if claim.notes else []
    notes = [_measured(entries), *_merged(remarks, len(entries))]
    return _table(title, columns, entries, {"difference", "seeds", "p"}, [note for note in notes if note])


def _related_values(title: str, entries: Sequence[ClaimEntry]) -> list[Table]:
    """Return a table of the metrics that the claims list beside their own, from the same runs of each method."""
    names = list(dict.fromkeys(name for entry in entries for name in (entry.claim.metric, *entry.claim.beside) if name))
    sides = {(ours.group.method, ours.group.chains): ours for entry in entries for ours in entry.ours if ours}
    if not sides or not any(entry.claim.beside for entry in entries):
        return []
    columns: dict[str, Callable[[Ours], str]] = {"method": lambda ours: ours.group.method}
    columns |= {name: lambda ours, name=name: with_interval(estimate_of(ours.group, name)) for name in names}  # type: ignore[misc]
    columns["seeds"] = lambda ours: str(len(ours.group.runs))
    return [_table(title, columns, list(sides.values()), {*names, "seeds"}, [])]


def _measured(entries: Sequence[ClaimEntry]) -> str:
    metrics = dict.fromkeys(entry.claim.metric for entry in entries if entry.claim.metric)
    return f"measured by {', '.join(metrics)}; difference: in the claim's direction" if metrics else ""


def _merged(remarks: Sequence[tuple[str, str]], entries: int) -> list[str]:
    """Return each note once, prefixed with the names of its rows unless it applies to all."""
    lines: dict[str, list[str]] = {}
    for name, words in remarks:
        lines.setdefault(words, []).append(name)
    return [words if len(names) == entries else f"{_list(names)}: {words}" for words, names in lines.items()]


def _list(names: Sequence[str]) -> str:
    return "; ".join(names) if len(names) <= MAX_NAMES else f"{names[0]} and {len(names) - 1} others"


def _tried(ledger: Reproduction) -> list[Table]:
    """Return a table of each method's results in a declared sweep, with the settings nearest to the printed value."""
    rows = []
    for entry in ledger.cells:
        whole = [ours for ours in entry.tried if len(ours.group.done) == len(ours.group.runs)]
        values = {ours: e.mean for ours in whole if (e := ours.estimate) is not None and e.mean is not None}
        if values:
            nearest = min(values, key=lambda ours: abs(values[ours] - entry.cell.value))
            rows.append((entry, len(entry.tried) - len(values), sorted(values.values()), nearest))
    if not rows:
        return []
    columns: dict[str, Callable[[tuple[CellEntry, int, list[float], Ours]], str]] = {
        "cell": lambda r: f"{r[0].cell.paper}, {r[0].cell.table}: {r[0].cell.row}, {r[0].cell.column}",
        "reported": lambda r: r[0].cell.text,
        "points": lambda r: str(len(r[2])),
        "lost": lambda r: str(r[1]),
        "least": lambda r: number(r[2][0]),
        "most": lambda r: number(r[2][-1]),
        "nearest": lambda r: _value(r[3]),
        "seeds": lambda r: str(len(r[3].group.runs)),
        "with": lambda r: ", ".join(settings_from(r[3].group, "swept")),
        "variance ratio": lambda r: with_interval(estimate_of(r[3].group, "variance_ratio")),
    }
    note = (
        "no verdict: in place of settings that are lost; lost: points with a run that diverged or failed; variance "
        "ratio: of the nearest, to the truth's, in the coordinate that is farthest off"
    )
    numbers = {"reported", "points", "lost", "least", "most", "nearest", "seeds", "variance ratio"}
    return [_table("Declared sweeps", columns, rows, numbers, [note])]


def _others(store: Store, ledger: Reproduction) -> list[Table]:
    rows = [(entry, ours) for entry in ledger.cells for ours in entry.others]
    if not rows:
        return []
    set_by = {ours.group.key: _set_by_budget(store, ours) for _, ours in rows}
    columns: dict[str, Callable[[tuple[CellEntry, Ours]], str]] = {
        "cell": lambda r: f"{r[0].cell.paper}, {r[0].cell.table}: {r[0].cell.row}, {r[0].cell.column}",
        "budget": lambda r: r[1].group.budget,
        "steps": lambda r: number(r[1].group.steps),
        "settings of the budget": lambda r: set_by[r[1].group.key],
        "reported": lambda r: r[0].cell.text,
        "ours": lambda r: _value(r[1]),
        "seeds": lambda r: str(len(r[1].group.runs)),
    }
    note = "not the published length, and perhaps a smaller network: no verdict"
    return [_table("At other budgets", columns, rows, {"steps", "reported", "ours", "seeds"}, [note])]


def _set_by_budget(store: Store, ours: Ours) -> str:
    """Return the settings that the protocol gives runs of this budget alone: "task.width=16"."""
    group = ours.group
    ((text,),) = (row.values() for row in store.rows("select origins from run where run_key = $1", [group.runs[0].key]))
    source = source_of_budget(group.protocol, group.budget)
    return ", ".join(f"{name}={o['value']}" for name, o in json.loads(text).items() if o["source"] == source) or "-"


def _table(
    title: str,
    columns: Mapping[str, Callable[[Any], str]],
    entries: Sequence[Any],
    right: set[str],
    notes: Sequence[str],
    keys: int = 1,
) -> Table:
    shape = [Column(name, name, "right" if name in right else "left") for name in columns]
    rows = [{name: text(entry) for name, text in columns.items()} for entry in entries]
    kept = [column for column in shape if column.key not in {"why", "of"} or any(row[column.key] for row in rows)]
    return Table(title, kept, rows, notes, keys)


def _value(ours: Ours | None) -> str:
    return with_interval(ours.estimate) if ours is not None else "-"


def _of(method: str | None, task: str | None, protocol: str | None, chains: int | None) -> str:
    """Return what was run: "csgld x 4 on mixture25@csgmcmc"."""
    if protocol is None:
        return f"{method} on {task}"
    times = f" x {chains}" if chains and chains > 1 else ""
    return f"{method}{times} on {task}@{protocol}"


def _records(ledger: Reproduction) -> list[dict[str, Any]]:
    cells = [record for entry in (*ledger.cells, *ledger.outside) for record in _cell_records(entry)]
    return cells + [_claim_record(entry) for entry in ledger.claims]


def _cell_records(entry: CellEntry) -> list[dict[str, Any]]:
    """Return the record of a cell with our run as published, and one for each sweep point and each other budget."""
    cell = entry.cell
    head = {
        "kind": "cell", "paper": cell.paper, "table": cell.table, "row": cell.row, "column": cell.column,
        "task": cell.task, "protocol": cell.protocol, "method": cell.method, "chains": cell.chains,
        "metric": cell.metric, "direction": cell.direction, "reported": cell.value, "reported_error": cell.error,
        "reported_error_kind": cell.error_kind if cell.error is not None else None, "reported_n": cell.n,
        "correction": cell.correction, "uncertain": cell.uncertain, "obstacle": cell.obstacle, "needs": cell.needs,
        "outside": cell.outside, "core_hours": cell.core_hours, "cause": cell.cause, "notes": cell.notes,
        "ours": list(cell.ours),
    }  # fmt: skip
    verdict = {"verdict": entry.verdict, "missing": entry.missing or None, "reason": entry.reason or None}
    first = {**head, **_numbers(entry.ours), **verdict}
    apart = [*entry.tried, *entry.others]
    return [first, *({**head, **_numbers(ours), "verdict": None, "missing": None, "reason": None} for ours in apart)]


def _claim_record(entry: ClaimEntry) -> dict[str, Any]:
    claim, judged = entry.claim, entry.judged
    better, worse = claim.better, claim.worse
    left, right = [*entry.ours, None, None][:2]
    return {
        "kind": "claim", "paper": claim.paper, "table": claim.table, "statement": claim.statement,
        "claim": claim.kind, "metric": claim.metric, "direction": claim.direction,
        "task": better.task if better else None, "protocol": better.protocol if better else None,
        "method": better.method if better else None, "chains": better.chains if better else None,
        **_numbers(left),
        "worse_method": worse.method if worse else None, "worse_protocol": worse.protocol if worse else None,
        "worse_chains": worse.chains if worse else None,
        "worse_mean": right.estimate.mean if right and right.estimate else None,
        "worse_run_keys": [run.key for run in right.group.runs] if right else [],
        "difference": judged.difference if judged else None, "pairs": judged.n if judged else 0,
        "p_holm": judged.p if judged else None, "needs": claim.needs, "core_hours": claim.core_hours,
        "cause": claim.cause, "notes": claim.notes,
        "ours": list(claim.ours), "comparisons": entry.swept.total if entry.swept else 0,
        "reversed": entry.swept.reversed if entry.swept else 0,
        "verdict": entry.kind, "in_sweep": entry.in_sweep, "missing": entry.missing or None,
        "reason": entry.reason or None,
    }  # fmt: skip


def _numbers(ours: Ours | None) -> dict[str, Any]:
    group, estimate = (ours.group, ours.estimate) if ours is not None else (None, None)
    return {
        "task_version": group.task_version if group else None,
        "budget": group.budget if group else None,
        "steps": group.steps if group else None,
        "batch_order": group.settings.get("run.batch_order") if group else None,
        "swept": dict(text.partition("=")[::2] for text in settings_from(group, "swept")) if group else None,
        "seeds": len(group.runs) if group else 0,
        "diverged": len(group.diverged) if group else 0,
        "failed": len(group.failed) if group else 0,
        "metric_version": estimate.version if estimate else None,
        "unit": estimate.unit if estimate else None,
        "mean": estimate.mean if estimate else None,
        "low": estimate.low if estimate else None,
        "high": estimate.high if estimate else None,
        "interval": estimate.interval if estimate else None,
        "run_keys": [run.key for run in group.runs] if group else [],
    }
