"""The end of a night: compare the results, publish the pages, report, and record the night, in this order."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.cli import context
from harness.cli.report import load_report
from harness.contracts.entry_points import HARNESS
from harness.contracts.hookspecs import Info
from harness.contracts.registry import KINDS, Offer
from harness.reporting.report import Request, Result, Table
from harness.results.environment import requirements
from harness.results.provenance import package_hash
from harness.results.records import Status
from harness.results.store import Store
from harness.runs.source import content_hash
from harness.system.errors import PluginError
from harness.system.text import plain
from plugins.verbs.regression import tables
from plugins.verbs.regression.changes import Change, changes, flat, settled
from plugins.verbs.regression.history import History
from plugins.verbs.regression.night import Night
from plugins.verbs.regression.observe import SuiteCommand, observe, skipped_rows
from plugins.verbs.regression.selection import Selection
from plugins.verbs.regression.site import Section, Site, described, is_current, publish
from plugins.verbs.suite import Suite

REGRESSION = 5
"""The exit code if a row became worse."""
SHOWN = 5
"""Regressions listed at the top of the page; the table below lists all."""
RESERVED = ("index", "night", "site")


def conclude(
    suite: Suite, entries: Sequence[SuiteCommand], out: Path, *, open_runs: int, accept: bool, ended: int
) -> Result:
    """Compare with the last night, publish to `out`, and record the night unless `open_runs` are not finished.

    The exit code is 5 if a row became worse, else `ended`, else 3 if a report could not be made.
    """
    store = _store(entries)
    tonight, skipped = observe(suite.digest, entries, store), skipped_rows(entries)
    history = History(context.current().results, suite.name)
    for note in history.notes:
        context.say(f"note: {note}")
    last, recorded = history.last(tonight), history.again(tonight)
    accepted = accept or (recorded is not None and recorded.accepted)
    found = changes(last, tonight, skipped)
    words, tone = verdict(last, found, open_runs, accepted=accepted)
    worse = [tables.sentence(change) for change in tables.told(found) if change.is_regression]
    own = tables.result(last, tonight, found, _failures(entries, store), _left_out(entries))
    lead = [*([suite.summary] if suite.summary else []), *worse[:SHOWN]]
    section = Section("night", "what changed since the last night, and the runs", own)
    site = Site(suite.name, words, tone, lead, _facts(store, tonight, last), [section])
    made_from = _made_from(site, suite, store)
    problems: dict[str, str] = {}
    if not (current := is_current(out, made_from)):
        problems = publish(replace(site, sections=[section, *_reports(suite, store)]), out, made_from)
    for name, problem in problems.items():
        context.say(f"report {name} could not be created: {problem}")
    if not open_runs:
        history.record(settled(last, tonight, found, accepted=accepted))
    sentences = "\n".join(plain(tables.sentence(change)) for change in tables.told(found)) if last else ""
    records = [flat(change) for change in found]
    note = f"{suite.name}: {words}; {'the pages are as before:' if current else 'pages in'} {out / 'index.html'}"
    code = REGRESSION if worse and not accepted else ended or (PluginError.exit_code if problems else 0)
    return Result([sentences] if sentences else [], records, notes=[note], exit_code=code)


def _store(entries: Sequence[SuiteCommand]) -> Store:
    """The store, with what is new ingested, as if it held the suite's runs and no others."""
    keys = [p.spec.key for entry in entries for p in entry.planned if p.spec.key not in entry.skipped]
    store = Selection(context.current().results, keys)
    for note in store.refresh(context.plugins().papers()):
        context.say(f"note: {note}")
    return store


def _made_from(site: Site, suite: Suite, store: Store) -> str:
    """SHA-256 of all that the pages depend on: the night, the store, which reports, code and versions."""
    registry = context.plugins()
    (section,) = site.sections
    own = [
        section.result.notes,
        *([t.title, t.cells(), t.notes] for t in section.result.tables if isinstance(t, Table)),
    ]
    night = [site.name, site.verdict, site.tone, site.lead, site.facts, own, [*map(dict, section.result.records)]]
    offers = [offer for kind in KINDS for offer in registry.offers(kind)]
    distributions = sorted({plugin.distribution for plugin in registry.plugins if plugin.packaged} | {HARNESS})
    code = [[repr(offer), _source(offer)] for offer in offers], [package_hash(name) for name in distributions]
    versions = [platform.python_version(), requirements(tuple(distributions))]
    parts = [night, store.fingerprint(), suite.reports, code, versions]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _source(offer: Offer) -> str:
    """The hash of an offer's code; what is wrong with it where it cannot be read."""
    try:
        return content_hash(offer.info.target) if isinstance(offer.info, Info) else ""
    except PluginError as error:
        return str(error)


def _reports(suite: Suite, store: Store) -> list[Section]:
    """Each report on the suite's runs. A report that fails is a section with the problem."""
    registry = context.plugins()
    sections = []
    for name in suite.reports or dict.fromkeys(offer.name for offer in registry.offers("reports")):
        own = name.rpartition(":")[2]
        section = Section(f"{own}-report" if own in RESERVED else own, "")
        try:
            section = replace(section, summary=registry.find("reports", name).info.summary)
            section = replace(section, result=load_report(name).build(store, Request(registry=registry)))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's report may fail in any way
            section = replace(section, problem=described(error))
        sections.append(section)
    return sections


def _failures(entries: Sequence[SuiteCommand], store: Store) -> list[dict[str, Any]]:
    """The suite's runs that have no result, with the reason."""
    rows = {p.spec.key: entry.row(p.spec) for entry in entries for p in entry.planned}
    query = f"select run_key, seed, status, step, reason, attempt from run_status where status <> '{Status.DONE}'"  # noqa: S608 - a word of ours
    return [{"row": rows[found["run_key"]], **found} for found in store.rows(f"{query} order by run_key, seed")]


def _left_out(entries: Sequence[SuiteCommand]) -> list[dict[str, Any]]:
    """The rows without data: the row, the command, the number of runs, and why."""
    found = []
    for entry in entries:
        rows = {p.spec.key: entry.row(p.spec) for p in entry.planned if p.spec.key in entry.skipped}
        reasons = {rows[key]: reason for key, reason in entry.skipped.items()}
        counts = Counter(rows.values())
        found += [
            {"row": row, "run": f"run {entry.number}", "runs": counts[row], "reason": reason}
            for row, reason in reasons.items()
        ]
    return found


def verdict(last: Night | None, found: Sequence[Change], open_runs: int, *, accepted: bool) -> tuple[str, str]:
    """A summary of the night in a few words, and its tone."""
    worse = sum(change.is_regression for change in found)
    left = f"; {open_runs} run{'' if open_runs == 1 else 's'} not finished" if open_runs else ""
    if last is None:
        return f"the first night: nothing to compare with{left}", "bad" if left else "plain"
    if not worse:
        return f"no regression{left}", "bad" if left else "good"
    count = f"{worse} regression{'' if worse == 1 else 's'}"
    return (f"{count}, accepted{left}", "plain") if accepted else (f"{count}{left}", "bad")


def _facts(store: Store, tonight: Night, last: Night | None) -> list[tuple[str, str]]:
    """(label, text), only from the store and the records, so that equal results give equal pages."""
    statuses = [status for row in tonight.rows.values() for status in row.statuses.values()]
    counts = [f"{statuses.count(status):,} {status.replace('_', ' ')}" for status in sorted(set(statuses))]
    (times,) = store.rows("select strftime(max(finished), '%Y-%m-%d %H:%M') as latest from result")
    found = [
        ("runs", ", ".join(counts) or "none"),
        ("latest run finished", f"{times['latest']} UTC" if times["latest"] else ""),
        ("compared with the night of", _minute(last.recorded) if last else ""),
    ]
    machines = store.rows(
        "select distinct bench, python, torch, platform, cpu, cores, gpu from environment order by all"
    )
    found += [(label, _all([[row[label.lower()]] for row in machines])) for label in ("bench", "Python", "torch")]
    machine = [[row["cpu"], f"{row['cores']} cores", row["gpu"], row["platform"]] for row in machines]
    found.append(("machine", _all(machine)))
    code = store.rows("select distinct distribution, version, git_commit, dirty from plugin order by all")
    own = [[c["distribution"], c["version"], (c["git_commit"] or "")[:10] or None, _dirty(c["dirty"])] for c in code]
    found.append(("code", _all(own)))
    return [(label, text) for label, text in found if text]


def _all(rows: Sequence[Sequence[object]]) -> str:
    """The parts of each row joined, and the rows joined, without duplicates."""
    texts = [", ".join(str(part) for part in row if part is not None) for row in rows]
    return "; ".join(dict.fromkeys(text for text in texts if text))


def _dirty(dirty: bool | None) -> str | None:
    return "with uncommitted changes" if dirty else None


def _minute(time: str) -> str:
    return f"{time[:16].replace('T', ' ')} UTC"
