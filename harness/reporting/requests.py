"""Find a report by its name and make its request from filters, for the command line and `harness.load`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from harness.contracts.parameters import check_known, unknown
from harness.contracts.plugin_errors import plugin_code
from harness.contracts.registry import load
from harness.reporting.report import Report, Request, Result
from harness.results.spec import budget_label
from harness.runs.plugin_metadata import protocols
from harness.system.errors import PluginError

if TYPE_CHECKING:
    from harness.contracts.registry import Registry
    from harness.results.store import Store

FILTERS = ("task", "method", "protocol", "budget", "chains")
"""The filters that select runs. They are columns of `run`."""


def find_report(registry: Registry, name: str) -> Report:
    """Return the report of that name. `UsageError` if there is none, `PluginError` if its plugin fails."""
    offer = registry.find("reports", name)
    here = f"report {name} ({offer.distribution})"
    with plugin_code(here):
        report = load(offer.target)()
    if not isinstance(report, Report):
        raise PluginError(f"{here}: {offer.target} does not derive from harness.reports.Report")
    return report


def build(report: Report, name: str, store: Store, request: Request) -> Result:
    """Build a report for a request. `PluginError` if it fails or does not return a Result."""
    with plugin_code(f"report {name} failed"):
        result = report.build(store, request)
    if not isinstance(result, Result):
        raise PluginError(f"report {name}: build returned a {type(result).__name__}, not a harness.Result")
    return result


def why_empty(result: Result, name: str, store: Store, request: Request) -> list[str]:
    """Return a note on why a report is empty and which command would change that. [] if the report is not empty."""
    if result.tables or result.records or result.figures:
        return []
    assert request.registry is not None
    fill = getattr(request.registry.find("reports", name).info, "fill", "")
    rows = store.rows("select distinct task, protocol from result order by all")
    if not rows:
        first = fill or "bench run --sampler NAME --task NAME"
        return [f"no finished runs in {store.results} yet; for a first one: {first}"]
    filtered = request != Request(registry=request.registry)
    places = ", ".join(f"{row['task']}@{row['protocol']}" for row in rows)
    what = "that match the filters" if filtered else f"for {name}"
    hint = "" if filtered or not fill else f". This command would make some: {fill}"
    return [f"no results {what} in {store.results}; there are results of {places}{hint}"]


def request_for(
    store: Store, registry: Registry, filters: Mapping[str, list[str]], metric: str | None = None
) -> Request:
    """Return the request for the runs that these `FILTERS` select. `UsageError` for an unknown name.

    A task may also be TASK@PROTOCOL, or a group of tasks.
    """
    wanted = {name: filters.get(name, []) for name in FILTERS}
    wanted["budget"] = [*map(budget_label, wanted["budget"])]
    tasks = [word.partition("@") for word in registry.tasks(wanted["task"])]
    wanted["task"] = [task for task, _, _ in tasks]
    wanted["protocol"] = [*wanted["protocol"], *(protocol for _, at, protocol in tasks if at)]
    seen = store.rows(f"select distinct {', '.join(FILTERS)} from run")  # noqa: S608 - names of ours
    known = {name: {str(row[name]) for row in seen} for name in wanted}
    spellings = sorted(known["budget"])
    known["budget"] |= {*map(budget_label, spellings)}
    known["task"] |= {offer.name for offer in registry.offers("tasks")}
    known["method"] |= {offer.name for kind in ("samplers", "methods") for offer in registry.offers(kind)}
    for name, values in wanted.items():  # the tasks before their protocols
        known[name] |= _protocols(registry, wanted["task"]) if name == "protocol" and values else set()
        kind, plugins = "number of chains" if name == "chains" else name, name in {"task", "method", "protocol"}
        wanted[name] = check_known(kind, values, known[name], registry.unknown if plugins else unknown)
    return Request(
        tasks=tuple(dict.fromkeys(wanted["task"])),
        methods=tuple(wanted["method"]),
        protocols=tuple(dict.fromkeys(wanted["protocol"])),
        budgets=(*wanted["budget"], *(one for one in spellings if budget_label(one) in wanted["budget"])),
        chains=tuple(map(int, wanted["chains"])),
        metric=metric,
        registry=registry,
    )


def _protocols(registry: Registry, tasks: Iterable[str]) -> set[str]:
    chosen = set(tasks)
    offers = [offer for offer in registry.offers("tasks") if not chosen or offer.name in chosen]
    return {protocol.name for offer in offers for protocol in protocols(offer)}
