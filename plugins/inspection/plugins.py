"""`bench plugins`: the installed plugins, what each one offers, and its problems."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness import Bench, BenchError, Info, PluginError, Registry, Result, UsageError
from harness.contracts import KINDS, Offer, Plugin, check, format_error, load, plugin_code, schema
from harness.reporting import table
from plugins.inspection.shown.offers import loaded

BASES = {
    "samplers": "harness:Sampler", "schedules": "harness:Schedule", "tasks": "harness.tasks:Task",
    "reports": "harness.reports:Report", "launchers": "plugins.clusters:Launcher",
}  # fmt: skip
"""The base class of each kind."""


def plugins(bench: Bench) -> Result:
    """List the plugins, what they offer, and their problems. Every class is loaded and created from its defaults.

    Examples:
        bench plugins
        bench plugins --json
    """
    rows = listing(bench.registry)
    notes = [f"{row['distribution']} ({row['plugin']}): {row['problems']}" for row in rows if row["problems"]]
    return Result([table(rows, ["plugin", "status", "offers", "version", "distribution"])], rows, notes=notes)


def listing(registry: Registry) -> list[dict[str, Any]]:
    """Return a row for each plugin."""
    return [_row(plugin, registry) for plugin in registry.plugins]


def _row(plugin: Plugin, registry: Registry) -> dict[str, Any]:
    faults = [*plugin.problems, *_problems(plugin, registry)]
    offered = {kind: ", ".join(o.name for o in plugin.offers if o.kind == kind) for kind in KINDS}
    offered["papers"] = ", ".join(path.stem for path in plugin.papers)
    offered["studies"] = ", ".join(path.stem for path in plugin.studies)
    offered["suites"] = ", ".join(path.stem for path in plugin.suites)
    return {
        "plugin": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "origin": plugin.origin,
        "packaged": plugin.packaged,
        "status": "problem" if faults else "ok",
        "offers": ", ".join(names for names in offered.values() if names),
        **offered,
        "problems": "; ".join(faults),
    }


def _problems(plugin: Plugin, registry: Registry) -> list[str]:
    """Return the problems of a plugin, found in a child process. If it crashes, check each offer in its own child."""
    from harness.runs import EndedError
    from harness.runs.children import plugin_call

    if not (plugin.offers or plugin.papers or plugin.studies or plugin.suites):
        return []
    try:
        wrong: list[str] = plugin_call(f"{__name__}:problems", plugin, registry)
    except EndedError as error:
        if len(plugin.offers) < 2:
            return [f"{plugin.offers[0].kind[:-1]} {plugin.offers[0].name!r}: {error}" if plugin.offers else str(error)]
        parts = [replace(plugin, offers=[offer], papers=[], studies=[], suites=[]) for offer in plugin.offers]
        parts.append(replace(plugin, offers=[]))
        return [problem for part in parts for problem in _problems(part, registry)]
    return wrong


def problems(plugin: Plugin, registry: Registry, _: object) -> list[str]:
    """Return the problems of a plugin's classes, methods, verbs, papers and suites. This executes the plugin's code."""
    faults = ((offer, fault(offer)) for offer in plugin.offers)
    named = [f"{offer.kind[:-1]} {offer.name!r}: {wrong}" for offer, wrong in faults if wrong]
    return [*named, *_unknown_parts(plugin, registry), *_broken_files(plugin, registry)]


def _broken_files(plugin: Plugin, registry: Registry) -> list[str]:
    wrong = []
    files = [("paper", path) for path in plugin.papers] + [("suite", path) for path in plugin.suites]
    for kind, path in files:
        try:
            for facts in registry.facts(kind):
                facts(path)
        except (UsageError, PluginError) as error:
            wrong.append(str(error))
    return wrong


def _unknown_parts(plugin: Plugin, registry: Registry) -> list[str]:
    """Return the problems of methods whose sampler or schedule does not exist."""
    wrong = []
    for offer in plugin.offers:
        for kind in ("samplers", "schedules") if offer.kind == "methods" else ():
            part = getattr(offer.info, kind[:-1])
            if part and part.rpartition(":")[2] not in {known.name for known in registry.offers(kind)}:
                wrong.append(f"method {offer.name!r}: there is no {kind[:-1]} {part!r}")
    return wrong


def fault(offer: Offer) -> str | None:
    """Return the problem of an offer's class, or None if there is none.

    The class may fail to load, have the wrong base class, or refuse its own defaults.
    """
    if not isinstance(offer.info, Info):
        return None
    try:
        cls = loaded(offer)
        with plugin_code("its defaults are refused"):
            if offer.kind in {"verbs", "facts", "settings"}:
                return None if callable(cls) else f"{offer.target} is not a function"
            base = BASES[offer.kind]
            if not (isinstance(cls, type) and issubclass(cls, load(base))):
                return f"{offer.target} is not a subclass of {base.replace(':', '.')}"
            if offer.kind != "reports":
                _make_from_defaults(cls)
    except PluginError as error:
        return str(error)
    except BenchError as error:
        return f"its defaults are refused: {format_error(error)}"
    return None


def _make_from_defaults(cls: type) -> None:
    """Create an object if every field has a default, else check each default on its own."""
    fields = schema(cls)
    if not any(field.required for field in fields):
        cls()
        return
    for field in fields:
        if not field.required:
            check(field, field.default, where=cls.__name__)
