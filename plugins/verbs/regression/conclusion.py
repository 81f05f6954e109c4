"""The end of a night: compare the results, publish the pages, report, and record the night, in this order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.cli import context
from harness.cli.report import load_report
from harness.reporting.rendering.site import Section, Site, described, publish
from harness.reporting.report import Request, Result
from harness.results.records import Status
from harness.results.store import Store
from harness.system.errors import PluginError
from harness.system.text import plain
from plugins.verbs.regression import page, tables
from plugins.verbs.regression.changes import changes, flat, settled
from plugins.verbs.regression.history import History
from plugins.verbs.regression.observe import SuiteCommand, observe, skipped_rows
from plugins.verbs.regression.selection import Selection
from plugins.verbs.suite import Suite

REGRESSION = 5
"""The exit code if a row became worse."""
RESERVED = ("index", "night", "site")


@dataclass(frozen=True)
class Conclusion:
    """What changed, and exit codes: `regression` is 5 where a row became worse, `fault` 3 where a report could not be
    made; else 0.
    """

    result: Result
    regression: int
    fault: int


def conclude(suite: Suite, entries: Sequence[SuiteCommand], out: Path, *, open_runs: int, accept: bool) -> Conclusion:
    """Compare with the last night, publish to `out`, tell, and record the night unless `open_runs` are to be done."""
    store = _store(entries)
    tonight, skipped = observe(suite.digest, entries, store), skipped_rows(entries)
    history = History(context.current().results, suite.name)
    for note in history.notes:
        context.say(f"note: {note}")
    last, recorded = history.last(tonight), history.again(tonight)
    accepted = accept or (recorded is not None and recorded.accepted)
    found = changes(last, tonight, skipped)
    words, tone = page.verdict(last, found, open_runs, accepted=accepted)
    worse = [tables.sentence(change) for change in tables.told(found) if change.is_regression]
    own = tables.result(last, tonight, found, _failures(entries, store), _left_out(entries))
    lead = [*([suite.summary] if suite.summary else []), *worse[: page.SHOWN]]
    section = Section("night", "what changed since the last night, and the runs", own)
    sections = [section, *_reports(suite, store)]
    problems = publish(Site(suite.name, words, tone, lead, page.facts(store, tonight, last), sections), out)
    for name, problem in problems.items():
        context.say(f"report {name} could not be created: {problem}")
    if not open_runs:
        history.record(settled(last, tonight, found, accepted=accepted))
    sentences = "\n".join(plain(tables.sentence(change)) for change in tables.told(found)) if last else ""
    records = [flat(change) for change in found]
    note = f"{suite.name}: {words}; pages in {out / 'index.html'}"
    result = Result([sentences] if sentences else [], records, notes=[note])
    return Conclusion(result, REGRESSION if worse and not accepted else 0, PluginError.exit_code if problems else 0)


def _store(entries: Sequence[SuiteCommand]) -> Store:
    """The store, with what is new ingested, as if it held the suite's runs and no others."""
    keys = [p.spec.key for entry in entries for p in entry.planned if p.spec.key not in entry.skipped]
    store = Selection(context.current().results, keys)
    for note in store.refresh(context.plugins().papers()):
        context.say(f"note: {note}")
    return store


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
