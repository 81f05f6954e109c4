"""The end of a night: compare the results, publish the pages, report, and record the night, in this order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import Bench, PluginError, Result
from harness.reports import Store
from harness.results import Status, now
from harness.system import count
from harness.system.text import plain
from plugins.nights.late import LateRow
from plugins.nights.regression import tables
from plugins.nights.regression.changes import Change, changes, flat, settled
from plugins.nights.regression.news import by_row, news
from plugins.nights.regression.night import History, Night
from plugins.nights.regression.observe import SuiteCommand, observe, skipped_rows
from plugins.nights.regression.selection import Selection
from plugins.nights.site import folder
from plugins.nights.site.build import about, code_of, made_from, names, publish
from plugins.nights.site.model import Section, Site
from plugins.nights.site.nights import timeline
from plugins.nights.suite import Suite
from plugins.running.groups import LeftOut
from plugins.upkeep.equal_sources import replay_missing

REGRESSION = 5
"""The exit code if a row became worse."""


def conclude(
    bench: Bench,
    suite: Suite,
    entries: Sequence[SuiteCommand],
    left_out: Sequence[tuple[int, LeftOut]],
    late: Sequence[LateRow],
    out: Path,
    *,
    open_runs: int,
    accept: bool,
    ended: int,
) -> Result:
    """Compare with the reference, publish to `out`, and record the night unless `open_runs` runs are not finished.

    Only a night that is recorded prints: what no recorded night has printed. The exit code is 5 if a row became worse,
    otherwise `ended`, or 3 if that is 0 and a report could not be made.
    """
    store = _store(bench, entries)
    unequal = _unequal(bench, entries, store)
    tonight, skipped = observe(suite.digest, entries, store), skipped_rows(entries)
    history = History(bench.results, suite.name)
    for note in history.notes:
        bench.say(f"note: {note}")
    last, recorded = history.last(tonight), history.again(tonight)
    accepted = accept or (recorded is not None and recorded.accepted)
    tonight = replace(tonight, recorded=recorded.recorded if recorded is not None else now())
    changed = _said_of(late, changes(last, tonight, skipped, history.earlier(tonight)))
    tonight = settled(last, tonight, changed, accepted=accepted)
    words, tone = verdict(last, changed, open_runs, accepted=accepted)
    if unequal:
        words, tone = f"{words}; {count(len(unequal), 'declaration')} of equal code refuted", "bad"
    worse = [tables.sentence(change) for change in tables.told(changed) if change.is_regression]
    left = _left_out(entries, left_out)
    night_result = tables.result(last, tonight, changed, _failures(entries, store), unequal, left)
    lead = [*([suite.summary] if suite.summary else []), *worse]
    section = Section("night", "what differs from the reference, and the runs", night_result)
    reference = (last.reference or last.recorded) if last is not None else ""
    compared = [("compared with the reference of", f"{reference[:16].replace('T', ' ')} UTC")] if last else []
    site = Site(suite.name, words, tone, lead, [*about(store), *compared], section)
    registry, chosen = bench.registry, names(bench.registry, suite.reports)
    nights = [timeline(bench.results, suite.name, bench.store(), tonight)]
    sources = code_of(registry)
    digest = made_from(site, chosen, nights, store, sources)
    problems: dict[str, str] = {}
    if not (current := folder.is_current(out, digest)):
        problems = publish(site, chosen, nights, store, registry, out, digest, sources)
    for name, problem in problems.items():
        bench.say(f"report {name} could not be created: {problem}")
    lines: list[str] = []
    if not open_runs:
        before = recorded or last
        lines, findings = news(
            before.told if before is not None else (), tonight, changed if last else [], by_row(unequal),
            again=recorded is not None,
        )  # fmt: skip
        history.record(replace(tonight, told=findings))
    sentences = "\n".join(map(plain, lines))
    records = [flat(change) for change in changed]
    note = f"{suite.name}: {words}; {'the pages are as before:' if current else 'pages in'} {out / folder.INDEX}"
    ended = ended or int(bool(unequal)) or (PluginError.exit_code if problems else 0)
    code = REGRESSION if worse and not accepted else ended
    return Result([sentences] if sentences else [], records, notes=[note], exit_code=code, changed=True)


def _store(bench: Bench, entries: Sequence[SuiteCommand]) -> Store:
    """Return the store, with new results ingested, as if it contained only the suite's runs."""
    keys = [p.spec.key for entry in entries for p in entry.planned if p.spec.key not in entry.skipped]
    store = Selection(bench.results, keys)
    for note in store.refresh():
        bench.say(f"note: {note}")
    return store


def _failures(entries: Sequence[SuiteCommand], store: Store) -> list[dict[str, Any]]:
    """Return the suite's runs that have no result, with the reason."""
    rows = {p.spec.key: entry.row(p.spec) for entry in entries for p in entry.planned}
    query = f"select run_key, seed, status, step, reason, attempt from run_status where status <> '{Status.DONE}'"  # noqa: S608 - a constant
    return [{"row": rows[run["run_key"]], **run} for run in store.rows(f"{query} order by run_key, seed")]


def _unequal(bench: Bench, entries: Sequence[SuiteCommand], store: Store) -> list[dict[str, Any]]:
    """Return the runs by which code that is declared equal to earlier code gives other numbers, with their rows."""
    rows = {p.spec.key: entry.row(p.spec) for entry in entries for p in entry.planned}
    return [
        {"row": rows[run["run_key"]], "seed": run["seed"], "reason": why, "attempt": run["attempt"]}
        for run, why in replay_missing(bench, store)
    ]


def _said_of(late: Sequence[LateRow], changed: Sequence[Change]) -> list[Change]:
    """Return the changes; those of rows that are new say that they were added late."""
    texts = {one.row: f"added after results of the season: {one}" for one in late}
    new = {change.row for change in changed if change.outcome == "new" and not change.metric} & texts.keys()
    return [replace(change, reason=texts[change.row]) if change.row in new else change for change in changed]


def _left_out(entries: Sequence[SuiteCommand], pairs: Sequence[tuple[int, LeftOut]]) -> list[dict[str, Any]]:
    """Return what the commands do not run, how many runs, and why: samplers that cannot run, rows without data."""
    left_out: list[dict[str, Any]] = [
        {"row": f"{one.method} on {', '.join(one.tasks)}", "run": f"run {number}", "reason": one.reason}
        for number, one in pairs
    ]
    for entry in entries:
        rows = {p.spec.key: entry.row(p.spec) for p in entry.planned if p.spec.key in entry.skipped}
        reasons = {rows[key]: reason for key, reason in entry.skipped.items()}
        counts = Counter(rows.values())
        left_out += [
            {"row": row, "run": f"run {entry.number}", "runs": counts[row], "reason": reason}
            for row, reason in reasons.items()
        ]
    return left_out


def verdict(last: Night | None, changed: Sequence[Change], open_runs: int, *, accepted: bool) -> tuple[str, str]:
    """Return a summary of the night in a few words, and its tone."""
    worse = sum(change.is_regression for change in changed)
    left = f"; {open_runs} run{'' if open_runs == 1 else 's'} not finished" if open_runs else ""
    if last is None:
        return f"the first night: nothing to compare with{left}", "bad" if left else "plain"
    if not worse:
        return f"no regression{left}", "bad" if left else "good"
    count = f"{worse} regression{'' if worse == 1 else 's'}"
    return (f"{count}, accepted{left}", "plain") if accepted else (f"{count}{left}", "bad")
