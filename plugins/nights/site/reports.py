"""The reports that a site shows: those of a suite, or all that are offered except a few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness import Registry
from harness.reporting import find_report
from harness.reports import Request, Store
from plugins.nights.site.contents import described, progress
from plugins.nights.site.model import Section

LEADERBOARD = "leaderboard"
FIRST = (LEADERBOARD, "convergence", "profile", "ranks", "pareto", "coverage", "ess")
"""Reports that are shown before the others, which follow by name."""
LEFT_OUT = ("interpolation", "mds", "reproduction", "theorem1", "theorem3")
"""Reports that are shown only if a suite names them: they take minutes, or are about papers and not about the runs."""
RESERVED = ("index", "night", "rows", "site", "style")


def names(registry: Registry, chosen: Sequence[str] | None = None) -> list[str]:
    """Return the names of the reports to show, in order."""
    if chosen is not None:
        return list(chosen)
    offered = list(dict.fromkeys(offer.name for offer in registry.offers("reports") if offer.name not in LEFT_OUT))
    return sorted(offered, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))


def sections(chosen: Sequence[str], registry: Registry, store: Store) -> list[Section]:
    """Return a section for each report on the store; for a report that fails, a section with the problem."""
    shown = []
    for i, name in enumerate(chosen, 1):
        progress(f"report {i} of {len(chosen)}: {name}")
        shown.append(section(name, registry, store))
    return shown


def section(name: str, registry: Registry, store: Store) -> Section:
    """Return the section of one report on the store."""
    bare = name.rpartition(":")[2]
    shown = Section(f"{bare}-report" if bare in RESERVED else bare, "")
    try:
        shown = replace(shown, summary=registry.find("reports", name).info.summary)
        return replace(shown, result=find_report(registry, name).build(store, Request(registry=registry)))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's report may fail in any way
        return replace(shown, problem=described(error))
