"""`bench site`: a site from a store: its reports, its pages, and the digest of everything from which they are made."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from threadpoolctl import threadpool_limits

from harness import Bench, BenchError, Info, PluginError, Registry, Result
from harness.contracts import HARNESS, KINDS, Offer
from harness.reporting import find_report
from harness.reports import Request, Store, Table
from harness.results import TABLES, environment, laws, provenance, timings
from harness.runs import content_hash
from harness.system import words
from plugins.nights.regression.night import suites
from plugins.nights.site import folder, gather
from plugins.nights.site.contents import begin, contents, described, progress
from plugins.nights.site.model import Section, Site, SuitePage
from plugins.nights.site.nights import Timeline, timeline
from plugins.nights.site.pictures import Drawings
from plugins.nights.suite import find

LEADERBOARD, CONVERGENCE = "leaderboard", "convergence"
FIRST = (LEADERBOARD, CONVERGENCE, "profile", "ranks", "pareto", "coverage", "ess")
"""Reports that are shown before the others, which follow by name."""
LEFT_OUT = (
    "interpolation", "mds", "reproduction", "theorem1", "theorem3",
    "contours", "ess-draws", "factors", "rank-plots", "sample-paths",
)  # fmt: skip
"""Reports that are shown only if they are asked for: they take minutes, are about papers and not about the runs, or
show once more what density, autocorrelation, trace, trajectory and the matrix of samplers have shown."""
RESERVED = ("index", "night", "rows", "site", "style")
OF_TASK = {
    "run_key": "select run_key from run where task = ?",
    "attempt": "select attempt.attempt from attempt join run using (run_key) where task = ?",
}
"""The runs and the attempts of a task, by the column that names them."""


@threadpool_limits.wrap(limits=1, user_api="blas")  # figures are drawn on the other processors meanwhile
def publish(
    site: Site,
    chosen: Sequence[str],
    lines: Sequence[Timeline],
    store: Store,
    registry: Registry,
    out: Path,
    digest: str,
    code: Sequence[object],
) -> dict[str, str]:
    """Complete a site with its reports, rows, tasks, methods and suites, and write it.

    `code` is that of `code_of`. Return the problems of reports by name; if there are any, `digest` is not kept.
    """
    request = Request(registry=registry)
    alike = [code, _measured(store)]
    drawings = Drawings(out, lambda task: _digest([*alike, _fingerprint(store, task)]))
    for name in chosen:
        with suppress(Exception, SystemExit):  # `section` has the words of the same error
            find_report(registry, name).prepare(store, request)
    sections = sections_of(chosen, request, store, drawings)
    by_name = {part.name: part.result for part in sections}
    board = by_name.get(LEADERBOARD) or section(LEADERBOARD, request, store).result
    fields = gather.fields(store, request, board, by_name.get(CONVERGENCE, Result()))
    whole = replace(
        site,
        sections=sections,
        fields=fields,
        tasks=gather.tasks(fields, registry),
        methods=gather.methods(fields, registry),
        suites=[SuitePage(line.suite, _summary(registry, line.suite), line.tables) for line in lines],
        names={name: key for line in lines for name, key in line.names.items()},
    )
    files, problems = contents(whole, drawings)
    folder.write(out, site.name, files, "" if problems else digest, drawings.made_from)
    return problems


def _summary(registry: Registry, suite: str) -> str:
    try:
        return find(registry, suite).summary
    except BenchError:
        return ""


def made_from(
    site: Site, chosen: Sequence[str], lines: Sequence[Timeline], store: Store, code: Sequence[object]
) -> str:
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
    nights = [[line.suite, line.digests] for line in lines]
    return _digest([night, nights, _fingerprint(store), _measured(store), chosen, code])


def _digest(parts: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def code_of(registry: Registry) -> list[object]:
    """Return the code of all plugins and of the packages that they come from, and the versions that they run with."""
    offers = [offer for kind in KINDS for offer in registry.offers(kind)]
    distributions = sorted({plugin.distribution for plugin in registry.plugins if plugin.packaged} | {HARNESS})
    hashes = [provenance.package_hash(name) for name in distributions]
    versions = [platform.python_version(), environment.requirements(tuple(distributions))]
    sources = [[repr(offer), "" if offer.distribution == HARNESS else _source(offer)] for offer in offers]
    return [sources, hashes, versions]  # the hash of the harness's packages covers the built-in plugins


def _fingerprint(store: Store, task: str = "") -> list[list[int]]:
    """Return the number of rows of each table and the sum of their hashes: what a report may read, of one task or all.

    The tables that have no runs, such as that of environments, are only in that of all.
    """
    queries: list[str] = []
    values: list[str] = []
    for name, table in TABLES.items():
        of_task = next((f"where {key} in ({query})" for key, query in OF_TASK.items() if key in table.columns), "")
        if name != "meta" and (of_task or not task):
            query = f"select {len(queries)}, count(*), sum(hash({', '.join(table.columns)})) from {name}"  # noqa: S608
            queries.append(f"{query} {of_task}" if task else query)
            values += [task] if task else []
    answer = store.table(" union all ".join(queries), values)[1]  # one query, as each opens the database
    return [[*row] for row in sorted(answer)]


def _measured(store: Store) -> list[object]:
    """Return the timings and the outcomes of laws in a results folder, which are files and not in the store."""
    return [
        sorted((key, repr(value)) for key, value in read(store.results).items()) for read in (laws.read, timings.read)
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
        [
            row["distribution"], row["version"], (row["git_commit"] or "")[:10] or None,
            "with uncommitted changes" if row["dirty"] else None,
        ]
        for row in code
    ]  # fmt: skip
    facts.append(("code", _all(distributions)))
    return [(label, text) for label, text in facts if text]


def _all(rows: Sequence[Sequence[object]]) -> str:
    """Join the parts of each row, then the rows, without duplicates."""
    texts = [", ".join(str(part) for part in row if part is not None) for row in rows]
    return "; ".join(dict.fromkeys(text for text in texts if text))


def names(registry: Registry, chosen: Sequence[str] | None = None) -> list[str]:
    """Return the names of the reports to show, in order."""
    if chosen is not None:
        return list(chosen)
    offered = list(dict.fromkeys(offer.name for offer in registry.offers("reports") if offer.name not in LEFT_OUT))
    return sorted(offered, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))


def sections_of(chosen: Sequence[str], request: Request, store: Store, drawings: Drawings) -> list[Section]:
    """Return a section for each report on the store; for a report that fails, a section with the problem.

    The figures of a report are drawn while the next reports are built, the last report first: the first ones are mostly
    tables, which would keep the processes that draw waiting. All reports are of one request, so what several of them
    need is computed once.
    """
    shown: list[Section] = []
    for i, name in enumerate(reversed(chosen), 1):
        progress(f"report {i} of {len(chosen)}: {name}")
        shown.insert(0, section(name, request, store))
        begin(shown[0], drawings)
    return shown


def section(name: str, request: Request, store: Store) -> Section:
    """Return the section of one report on the store."""
    assert request.registry is not None
    bare = name.rpartition(":")[2]
    shown = Section(f"{bare}-report" if bare in RESERVED else bare, "")
    try:
        shown = replace(shown, summary=request.registry.find("reports", name).info.summary)
        return replace(shown, result=find_report(request.registry, name).build(store, request))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's report may fail in any way
        return replace(shown, problem=described(error))


def site(
    bench: Bench,
    out: Annotated[Path, typer.Option("--out", help="Folder for the pages.")],
    report: Annotated[
        list[str] | None, typer.Option(help="Only these reports, a,b,c; default: all but those that take minutes.")
    ] = None,
) -> Result:
    """Write pages of all results: leaders, tasks, methods, rows with their runs, reports, and the history of suites.

    The pages open from disk. Exit code 3 if a report could not be made; the others are written.

    Examples:
        bench site --out pages
        bench site --out pages --report leaderboard,coverage
    """
    registry, results = bench.registry, bench.results
    chosen = names(registry, words(report) if report else None)
    for name in chosen:
        registry.find("reports", name)
    folder.check_folder(out, results.name)
    store = bench.store()
    lines = [timeline(results, name, store) for name in suites(results)]
    planned = Site(results.name, facts=about(store))
    code = code_of(registry)
    digest = made_from(planned, chosen, lines, store, code)
    if folder.is_current(out, digest):
        return Result(notes=[f"the pages are as before: {out / folder.INDEX}"])
    problems = publish(planned, chosen, lines, store, registry, out, digest, code)
    return Result(
        notes=[f"pages in {out / folder.INDEX}"], exit_code=PluginError.exit_code if problems else 0, changed=True
    )
