"""The nights of a suite as pages show them: what was run, and the commits at which metrics changed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.reports import Column, Store, Table
from plugins.nights.regression.changes import changes
from plugins.nights.regression.night import FOLDER, Night, NightRow, read
from plugins.nights.regression.tables import line

MOST_NIGHTS = 100
"""Most nights that are shown; a night with the numbers of the night before is not recorded again."""
MOST_MOVES = 500
"""Most changes that are shown, the latest first: there are more only if all rows change at once."""
PARTS = (
    "sampler_source",
    "schedule_source",
    "task_source",
    "task_data",
    "engine",
    "sampler_params",
    "schedule_params",
    "task_params",
    "steps",
)
RUNS = f"""
with commit as (
    select attempt, string_agg(distribution || ' ' || left(git_commit, 10) ||
        case when dirty then ', with uncommitted changes' else '' end, '; ' order by distribution) as code
    from plugin where git_commit is not null group by attempt
)
select run_key, group_key, commit.code, strftime(finished, '%Y-%m-%d %H:%M') as finished, {", ".join(PARTS)}
from result left join commit on commit.attempt = result.attempt where run_key in (select unnest(?::varchar[]))
"""  # noqa: S608 - names from above


@dataclass(frozen=True)
class Timeline:
    """The nights of a suite: tables of them, their digests, and the group key of the latest runs of each row name."""

    suite: str
    tables: Sequence[Table]
    names: Mapping[str, str]
    digests: Sequence[str]


def timeline(results: Path, suite: str, store: Store, tonight: Night | None = None) -> Timeline:
    """Return the nights of a suite in a results folder, and tonight if it is not recorded yet."""
    nights = [(int(path.stem), night) for path, night in read(results / FOLDER / suite, MOST_NIGHTS, [])]
    nights.reverse()
    if tonight is not None and (not nights or nights[-1][1].digest != tonight.digest):
        nights.append((nights[-1][0] + 1 if nights else 1, tonight))
    keys = sorted({key for _, night in nights for row in night.rows.values() for key in row.keys.values()})
    runs = {run["run_key"]: run for run in store.rows(RUNS, [keys])}
    names = {name: group for _, night in nights for name, row in night.rows.items() if (group := _group(row, runs))}
    tables = [_nights(nights, runs), *([_moves(nights, runs)] if len(nights) > 1 else [])]
    return Timeline(suite, tables, names, [night.digest for _, night in nights])


def _group(row: NightRow, runs: Mapping[str, Mapping[str, Any]]) -> str:
    return next((str(runs[key]["group_key"]) for key in row.keys.values() if key in runs), "")


def _code(row: NightRow, runs: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the commits with which a row's runs were made."""
    return "; ".join(dict.fromkeys(runs[key]["code"] for key in row.keys.values() if key in runs and runs[key]["code"]))


def _nights(nights: Sequence[tuple[int, Night]], runs: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = []
    for number, night in reversed(nights):
        known = [runs[key] for row in night.rows.values() for key in row.keys.values() if key in runs]
        lost = sum(len(row.lost()) for row in night.rows.values())
        rows.append({
            "night": number, "finished": max((run["finished"] or "" for run in known), default=""),
            "rows": len(night.rows), "runs": sum(len(row.keys) for row in night.rows.values()), "lost": lost or None,
            "code": "; ".join(dict.fromkeys(run["code"] for run in known if run["code"])),
        })  # fmt: skip
    columns = [
        Column("night", "night", "right"), Column("finished", "latest run finished, UTC"),
        Column("rows", "rows", "right"), Column("runs", "runs", "right"),
        Column("lost", "diverged or failed", "right"), Column("code", "commits"),
    ]  # fmt: skip
    return Table("Nights", columns, rows, ["a night with the numbers of the night before is the same night"])


def _moves(nights: Sequence[tuple[int, Night]], runs: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return a table of every change of a metric between two nights, the latest and the clearest first."""
    rows: list[dict[str, Any]] = []
    for (_, last), (number, night) in reversed(list(itertools.pairwise(nights))):
        moved = [change for change in changes(last, night) if change.comparison is not None]
        moved.sort(key=lambda change: (change.outcome == "unclear", change.row, change.metric))
        for change in moved:
            before, now = last.compared_with()[change.row], night.rows[change.row]
            then, here = _code(before, runs), _code(now, runs)
            rows.append({
                "night": number, **line(change), "what": _what(before, now, runs),
                "commit": here if here == then else f"{then or '?'} -> {here or '?'}",
            })  # fmt: skip
    columns = [
        Column("row", "row"), Column("night", "night", "right"), Column("metric", "metric"),
        Column("outcome", "outcome"), Column("last", "before", "right"), Column("tonight", "after", "right"),
        Column("effect", "after / before, or - before", "right"),
        Column("p", "p after Holm", "right"), Column("what", "what changed"), Column("commit", "commits"),
    ]  # fmt: skip
    more = [f"{len(rows) - MOST_MOVES:,} earlier or unclear moves are not shown"] if len(rows) > MOST_MOVES else []
    notes = ["x2: twice as large, or twice as far from the best value if the metric has one", *more]
    return Table("When metrics moved", columns, rows[:MOST_MOVES], notes)


def _what(before: NightRow, now: NightRow, runs: Mapping[str, Mapping[str, Any]]) -> str:
    """Return which parts of the runs differ: sources, engine, settings; a sentence if none does or none is known."""
    pairs = [(before.keys[seed], now.keys[seed]) for seed in before.keys.keys() & now.keys.keys()]
    if all(a == b for a, b in pairs):
        return "the same runs, scored again"
    known = [(runs[a], runs[b]) for a, b in pairs if a in runs and b in runs]
    if not known:
        return "the runs are not in this folder any more"
    parts = [part for part in PARTS if any(a[part] != b[part] for a, b in known)]
    return ", ".join(part.replace("_", " ") for part in parts) or "how the runs were executed"
