"""The nights of a suite as pages show them: what was run, and the commits at which metrics changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.reports import Column, Store, Table
from plugins.nights.regression.changes import Change, changes
from plugins.nights.regression.night import FOLDER, MOST, Night, NightRow, read
from plugins.nights.regression.tables import line

MOST_MOVES = 500
"""Most changes that are shown besides the regressions, of which all are, the latest first."""
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
    nights = [(int(path.stem), night) for path, night in read(results / FOLDER / suite, MOST, [])]
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
            "night": number, "date": _date(night), "reference": "yes" if night.recorded == night.reference else "",
            "finished": max((run["finished"] or "" for run in known), default=""),
            "rows": len(night.rows), "runs": sum(len(row.keys) for row in night.rows.values()), "lost": lost or None,
            "code": "; ".join(dict.fromkeys(run["code"] for run in known if run["code"])),
        })  # fmt: skip
    columns = [
        Column("night", "night", "right"), Column("date", "date in UTC"), Column("reference", "reference"),
        Column("finished", "latest run finished in UTC"),
        Column("rows", "rows", "right"), Column("runs", "runs", "right"),
        Column("lost", "diverged or failed", "right"), Column("code", "commits"),
    ]  # fmt: skip
    return Table("Nights", columns, rows, ["a night with the numbers of the night before is the same night"])


def _date(night: Night) -> str:
    return night.recorded[:16].replace("T", " ")


def _moves(nights: Sequence[tuple[int, Night]], runs: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return a table of every night in which a metric got new numbers, the latest and the clearest first."""
    rows: list[dict[str, Any]] = []
    for i in range(len(nights) - 1, 0, -1):
        last, (number, night) = nights[i - 1][1], nights[i]
        earlier = [before for _, before in reversed(nights[:i])]
        moved = [change for change in changes(last, night, earlier=earlier) if _is_move(change, last, night)]
        moved.sort(key=lambda change: (change.outcome == "unclear", change.row, change.metric))
        for change in moved:
            before, now = last.compared_with()[change.row], night.rows.get(change.row)
            then, here = _code(before, runs), _code(now, runs) if now is not None else ""
            rows.append({
                "night": number, "date": _date(night)[:10], **line(change),
                "what": _what(before, now, runs) if now is not None else "", "regression": change.is_regression,
                "commit": here if here == then else f"{then or '?'} -> {here or '?'}",
            })  # fmt: skip
    reason = [Column("reason", "reason")] if any(row.get("reason") for row in rows) else []
    columns = [
        Column("row", "row"), Column("metric", "metric"), Column("effect", "after / reference or - reference", "right"),
        Column("outcome", "outcome"), Column("night", "night", "right"), Column("date", "date in UTC"),
        Column("reference", "reference", "right"), Column("tonight", "after", "right"),
        Column("p", "p x all", "right"), *reason,
        Column("what", "what changed"),
        Column("commit", "commits"),
    ]  # fmt: skip
    others = [i for i, row in enumerate(rows) if not row["regression"]]
    left_out = {*others[MOST_MOVES:]}
    more = [f"{len(left_out):,} earlier moves that are no regressions are not shown"] if left_out else []
    notes = ["x2: twice as large, or twice as far from the best value if the metric has one", *more]
    return Table("When metrics moved", columns, [row for i, row in enumerate(rows) if i not in left_out], notes)


def _is_move(change: Change, last: Night, night: Night) -> bool:
    """Return whether a metric has other numbers than in the night before, or a row or value is a new regression."""
    if change.comparison is None:
        return change.is_regression and not any(told[:4] == _finding(change) for told in last.told)
    numbers = [
        row.metrics[change.metric].values if row is not None and change.metric in row.metrics else None
        for row in (last.rows.get(change.row), night.rows[change.row])
    ]
    return numbers[0] != numbers[1]


def _finding(change: Change) -> tuple[str, str, str, str]:
    return change.row, change.metric, change.outcome, change.reason


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
