"""A site from a store: its reports, its pages, and the digest of everything from which they are made."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness import BenchError, Info, PluginError, Registry
from harness.contracts import HARNESS, KINDS, Offer
from harness.reports import Store, Table
from harness.results import TABLES, environment, provenance
from harness.runs import content_hash
from plugins.nights.site import folder, gather, reports
from plugins.nights.site.contents import contents
from plugins.nights.site.model import Site, SuitePage
from plugins.nights.site.nights import Timeline
from plugins.nights.suite import find


def publish(
    site: Site,
    chosen: Sequence[str],
    lines: Sequence[Timeline],
    store: Store,
    registry: Registry,
    out: Path,
    digest: str,
) -> dict[str, str]:
    """Complete a site with its reports, rows, tasks, methods and suites, and write it.

    Return the problems of reports by name; if there are any, `digest` is not kept.
    """
    sections = reports.sections(chosen, registry, store)
    board = next((s for s in sections if s.name == reports.LEADERBOARD), None)
    board = board or reports.section(reports.LEADERBOARD, registry, store)
    fields = gather.fields(store, registry, board.result)
    whole = replace(
        site,
        sections=sections,
        fields=fields,
        tasks=gather.tasks(fields, registry),
        methods=gather.methods(fields, registry),
        suites=[SuitePage(line.suite, _summary(registry, line.suite), line.tables) for line in lines],
        names={name: key for line in lines for name, key in line.names.items()},
    )
    files, problems = contents(whole)
    folder.write(out, site.name, files, "" if problems else digest)
    return problems


def _summary(registry: Registry, suite: str) -> str:
    try:
        return find(registry, suite).summary
    except BenchError:
        return ""


def made_from(site: Site, chosen: Sequence[str], lines: Sequence[Timeline], store: Store, registry: Registry) -> str:
    """Return the SHA-256 of all that the pages depend on: the nights, the store, the reports, code and versions."""
    tonight = site.changes.result if site.changes else None
    changes = (
        [tonight.notes, *([t.title, t.cells(), t.notes] for t in tonight.tables if isinstance(t, Table))]
        if tonight
        else []
    )
    night = [
        site.name,
        site.verdict,
        site.tone,
        site.lead,
        site.facts,
        changes,
        [*map(dict, tonight.records)] if tonight else [],
    ]
    offers = [offer for kind in KINDS for offer in registry.offers(kind)]
    distributions = sorted({plugin.distribution for plugin in registry.plugins if plugin.packaged} | {HARNESS})
    code = (
        [[repr(offer), _source(offer)] for offer in offers],
        [provenance.package_hash(name) for name in distributions],
    )
    versions = [platform.python_version(), environment.requirements(tuple(distributions))]
    nights = [[line.suite, line.digests] for line in lines]
    parts = [night, nights, _fingerprint(store), chosen, code, versions]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _fingerprint(store: Store) -> list[list[int]]:
    """Return the number of rows of each table and the sum of their hashes: what a report may read."""
    return [
        [*store.table(f"select count(*), sum(hash({', '.join(table.columns)})) from {name}")[1][0]]  # noqa: S608
        for name, table in TABLES.items()
        if table.of
    ]


def _source(offer: Offer) -> str:
    """Return the hash of an offer's code, or the error if the code cannot be read."""
    try:
        return content_hash(offer.info.target) if isinstance(offer.info, Info) else ""
    except PluginError as error:
        return str(error)


def about(store: Store) -> list[tuple[str, str]]:
    """Return (label, text) about the runs, only from the store, so that equal results give equal pages."""
    statuses = store.rows("select status, count(*) as runs from result group by all order by all")
    (times,) = store.rows("select strftime(max(finished), '%Y-%m-%d %H:%M') as latest from result")
    facts = [
        ("runs", ", ".join(f"{row['runs']:,} {row['status'].replace('_', ' ')}" for row in statuses) or "none"),
        ("latest run finished", f"{times['latest']} UTC" if times["latest"] else ""),
    ]
    machines = store.rows(
        "select distinct bench, python, torch, platform, cpu, cores, gpu from environment order by all"
    )
    facts += [(label, _all([[row[label.lower()]] for row in machines])) for label in ("bench", "Python", "torch")]
    machine = [[row["cpu"], f"{row['cores']} cores", row["gpu"], row["platform"]] for row in machines]
    facts.append(("machine", _all(machine)))
    code = store.rows("select distinct distribution, version, git_commit, dirty from plugin order by all")
    distributions = [
        [c["distribution"], c["version"], (c["git_commit"] or "")[:10] or None, _dirty(c["dirty"])] for c in code
    ]
    facts.append(("code", _all(distributions)))
    return [(label, text) for label, text in facts if text]


def _all(rows: Sequence[Sequence[object]]) -> str:
    """Join the parts of each row, then the rows, without duplicates."""
    texts = [", ".join(str(part) for part in row if part is not None) for row in rows]
    return "; ".join(dict.fromkeys(text for text in texts if text))


def _dirty(dirty: bool | None) -> str | None:
    return "with uncommitted changes" if dirty else None
