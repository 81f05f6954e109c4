"""A plugin and what it offers, as its hooks say."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pluggy

import harness
from harness.contracts import hookspecs
from harness.contracts.hook_validation import records
from harness.contracts.hookspecs import GROUP, Info, Method
from harness.contracts.plugin_errors import plugin_code
from harness.system.errors import BenchError

KINDS = ("samplers", "schedules", "methods", "tasks", "reports", "verbs", "launchers")
"""What a plugin can offer: its hooks are `bench_` and one of these."""
PACKAGES = ("plugins", "tasks", "reports")


@dataclass(frozen=True)
class Offer:
    """One thing that a plugin offers: its record, its kind, and the plugin and distribution from which it comes."""

    info: Info | Method
    kind: str
    plugin: str
    distribution: str
    version: str

    @property
    def name(self) -> str:
        """The name by which it is requested."""
        return self.info.name

    @property
    def target(self) -> str:
        """Where its class is, "package.module:Class"; "" for a method, which has none."""
        return self.info.target if isinstance(self.info, Info) else ""


@dataclass
class Plugin:
    """One entry point (or file): what it offers, or why it offers nothing."""

    name: str
    distribution: str
    version: str
    origin: str
    offers: list[Offer] = field(default_factory=list)
    papers: list[Path] = field(default_factory=list)
    studies: list[Path] = field(default_factory=list)
    suites: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    packaged: bool = True
    imported: bool = False


def look(plugin: Plugin) -> None:
    """Import the module of a plugin and record what it offers."""
    try:
        with plugin_code("does not import"):
            _check_shadowing(plugin.origin)
            value = plugin.origin if plugin.packaged else plugin.name
            module = importlib.metadata.EntryPoint(plugin.name, value, GROUP).load()
    except BenchError as error:  # the plugin's row states the reason
        plugin.problems.append(str(error))
        return
    plugin.imported = True
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    try:
        with plugin_code("hook refused"):
            manager.register(module, plugin.name)
            manager.check_pending()
    except BenchError as error:
        plugin.problems.append(str(error))
        return
    for kind in (*KINDS, "facts", "settings"):
        found = _call(manager, plugin, f"bench_{kind}", Method if kind == "methods" else Info)
        plugin.offers += [Offer(info, kind, plugin.name, plugin.distribution, plugin.version) for info in found]
    plugin.papers = _call(manager, plugin, "bench_papers", Path)
    plugin.studies = _call(manager, plugin, "bench_studies", Path)
    plugin.suites = _call(manager, plugin, "bench_suites", Path)


def _call(manager: pluggy.PluginManager, plugin: Plugin, hook: str, kind: type) -> list[Any]:
    try:
        with plugin_code(f"{hook} failed"):
            found, problems = records(hook, getattr(manager.hook, hook)(), kind)
    except BenchError as error:
        found, problems = [], [str(error)]
    plugin.problems += problems
    return found


def _check_shadowing(value: str) -> None:
    """Raise `ImportError` if a built-in package, whose name is a plain word, is shadowed by another module."""
    package = value.partition(".")[0].partition(":")[0]
    if package not in PACKAGES:
        return
    home = Path(harness.__file__).resolve().parent.parent / package
    spec = importlib.util.find_spec(package)
    found = Path(spec.origin).resolve().parent if spec and spec.origin else None
    if found != home:
        raise ImportError(
            f"the package {package!r} of sgmcmc-bench is shadowed by {found or 'another module'}; "
            "run from another folder, or remove that one from PYTHONPATH"
        )
