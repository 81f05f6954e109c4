"""`bench site`: pages of a results folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import Bench, PluginError, Result
from harness.system import words
from plugins.nights.regression import history
from plugins.nights.site import folder, reports
from plugins.nights.site.build import about, made_from, publish
from plugins.nights.site.model import Site
from plugins.nights.site.nights import timeline


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
    chosen = reports.names(registry, words(report) if report else None)
    for name in chosen:
        registry.find("reports", name)
    folder.check_folder(out, results.name)
    store = bench.store()
    lines = [timeline(results, name, store) for name in history.suites(results)]
    planned = Site(results.name, facts=about(store))
    digest = made_from(planned, chosen, lines, store, registry)
    if folder.is_current(out, digest):
        return Result(notes=[f"the pages are as before: {out / folder.INDEX}"])
    problems = publish(planned, chosen, lines, store, registry, out, digest)
    return Result(
        notes=[f"pages in {out / folder.INDEX}"], exit_code=PluginError.exit_code if problems else 0, changed=True
    )
