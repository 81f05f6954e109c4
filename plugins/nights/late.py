"""Rows that join a suite after results of its season were published.

The seeds of a season follow from its number, so whoever adds a row later can have chosen its settings by results on
these seeds. This row runs on seeds of its own, by SHA-256 of a secret of the results folder, the season and the row.
The reference samplers of the suite run on them too; other rows have no seed in common with it, and are compared with
it without pairing. It keeps its seeds until the next season, in which all rows share seeds again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import Bench, Registry
from harness.reports import Store
from harness.results import Ledger
from harness.results import spec as specs
from harness.runs import Planned
from plugins.fresh_seeds import fresh_seeds
from plugins.nights.regression.night import FOLDER, read
from plugins.nights.regression.observe import SuiteCommand
from plugins.nights.suite import MAX_SEEDS, Suite

CAVEAT = "late"
SEASON = "run.season"
"""The origin by which the runs of such a row say so."""
_ROWS = f"""
with run_of as (
    select group_key, json_extract_string(origins, '$."{SEASON}".source') as text,
        coalesce(json_extract_string(origins, '$."{SEASON}".provenance') = '{specs.LATE}', false) as late
    from result
)
select group_key, max(text) filter (where late) as text, count(*) filter (where late) as late, count(*) as runs
from run_of group by all having count(*) filter (where late) > 0 order by all
"""  # noqa: S608 - own names


@dataclass(frozen=True)
class LateRow:
    """A row on seeds of its own, the rows of the reference samplers that run on them, and how many runs are missing."""

    row: str
    seeds: Sequence[int]
    references: Sequence[str]
    missing: int

    def __str__(self) -> str:
        """Return it for people."""
        beside = (
            f", with {', '.join(self.references)}"
            if self.references
            else "; no reference sampler of the suite is in its table"
        )
        return f"on {len(self.seeds)} seeds of its own{beside}"


def caveats(store: Store, _: Registry) -> dict[str, dict[str, str]]:
    """Return the groups that were added after results of their season were published."""
    return {
        row["group_key"]: {CAVEAT: row["text"] if row["late"] == row["runs"] else _in_part(row)}
        for row in store.rows(_ROWS)
    }


def _in_part(row: Mapping[str, Any]) -> str:
    """Return the text of a group that also has runs of another season, in which it shares seeds with the others."""
    return f"{row['late']} of {row['runs']} runs were {row['text']}"


def separated(bench: Bench, suite: Suite, commands: Sequence[SuiteCommand]) -> tuple[list[SuiteCommand], list[LateRow]]:
    """Return the commands with the late rows on seeds of their own, and commands of reference samplers on these."""
    season = suite.season
    published = _published(bench.results, suite) if season is not None else {}
    if season is None or not published:
        return list(commands), []
    bench.ledger.prepare()
    kept: list[SuiteCommand] = []
    others: list[tuple[SuiteCommand, Planned]] = []
    late: list[tuple[SuiteCommand, str, Sequence[Planned]]] = []
    for command in commands:
        rows, seeds = _rows(command), [*(command.request.seeds or ())]
        for name, runs in rows.items() if seeds and seeds == fresh_seeds(len(seeds), "season", season) else ():
            if name in published and published[name].on_season:
                others.append((command, runs[0]))
                continue
            spec, before = runs[0].spec, published[name].seeds if name in published else []
            more = fresh_seeds(len(runs), bench.ledger.secret, "season", season, spec.group, known=before)
            text = f"added after results of season {season} of suite {suite.name}, so on seeds of its own"
            marked = replace(spec, origins={**spec.origins, SEASON: specs.Origin(season, specs.LATE, text)})
            rows[name] = _on(replace(runs[0], spec=marked), [*before, *more][: len(runs)], bench.ledger)
            late.append((command, name, rows[name]))
        kept.append(replace(command, planned=[run for runs in rows.values() for run in runs]))
    peers = {name for names in bench.registry.facts("peers") for name in names()} if late else set()
    added = []
    for _, name, runs in late:
        beside = [(c, run) for c, run in others if run.spec.method in peers and _alike(run, runs[0])]
        late_seeds = [run.spec.seed for run in runs]
        extra = [replace(command, planned=_on(run, late_seeds, bench.ledger), of=name) for command, run in beside]
        kept += extra
        missing = sum(not run.standing.cached for part in (runs, *(one.planned for one in extra)) for run in part)
        added.append(LateRow(name, late_seeds, [run.spec.method for _, run in beside], missing))
    return kept, added


@dataclass(frozen=True)
class _Published:
    """The seeds of a row in the last night of the season that has it, and whether they are those of the season."""

    seeds: Sequence[int]
    on_season: bool


def _published(results: Path, suite: Suite) -> Mapping[str, _Published]:
    """Return the rows of all recorded nights of a suite's season; a night of a season has rows on its seeds."""
    nights = read(results / FOLDER / suite.name, most=-1, notes=[])
    season = {*fresh_seeds(MAX_SEEDS, "season", suite.season)} if nights and suite.season is not None else set[int]()
    rows: dict[str, _Published] = {}
    for _, night in nights:  # the latest first
        if any(season & row.keys.keys() for row in night.rows.values()):
            for name, row in night.rows.items():
                if name not in rows or season & row.keys.keys():
                    rows[name] = _Published([*row.keys], bool(season & row.keys.keys()))
    return rows


def _rows(command: SuiteCommand) -> dict[str, Sequence[Planned]]:
    rows: dict[str, list[Planned]] = {}
    for run in command.planned:
        rows.setdefault(command.row(run.spec), []).append(run)
    return dict(rows)


def _on(run: Planned, seeds: Iterable[int], ledger: Ledger) -> list[Planned]:
    """Return a planned run on other seeds."""
    specs = [replace(run.spec, seed=seed) for seed in seeds]
    return [replace(run, spec=spec, standing=ledger.standing(spec.key)) for spec in specs]


def _alike(one: Planned, other: Planned) -> bool:
    """Return whether two runs are of rows in one table."""
    fields = ("task", "task_version", "protocol", "data", "budget", "chains", "moved")
    return all(getattr(one.spec, name) == getattr(other.spec, name) for name in fields)
