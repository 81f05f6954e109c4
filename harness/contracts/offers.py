"""A plugin and what it offers, as its hooks say. pluggy checks the hooks' arguments; their values are checked here."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pluggy

from harness.contracts import hookspecs
from harness.contracts.hookspecs import GROUP, Info, Method
from harness.contracts.parameters import suggestions
from harness.contracts.plugin_errors import format_error, plugin_code
from harness.system.errors import BenchError, PluginError
from harness.system.import_path import HOME, PACKAGES

HARNESS = "sgmcmc-bench"
"""The distribution that offers the built-in plugins."""
UNKNOWN = "unknown"
KINDS = ("samplers", "schedules", "methods", "tasks", "reports", "verbs", "launchers")
"""What a plugin can offer: its hooks are `bench_` and one of these."""
NAME = re.compile(r"[a-z][a-z0-9-]*")
LONGEST = 64
_WORD = r"[^\W\d]\w*"
TARGET = re.compile(rf"{_WORD}(\.{_WORD})*:{_WORD}")
HOOKS = [name for name in vars(hookspecs) if name.startswith("bench_")]
PLAIN = (str, int, float, bool, type(None))


class EntryPoint(NamedTuple):
    """The entry point of a plugin, with the name and version of its distribution; version "" if it declares none."""

    name: str
    value: str
    distribution: str
    version: str


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
        infos = _call(manager, plugin, f"bench_{kind}", Method if kind == "methods" else Info)
        plugin.offers += [Offer(info, kind, plugin.name, plugin.distribution, plugin.version) for info in infos]
    plugin.papers = _call(manager, plugin, "bench_papers", Path)
    plugin.studies = _call(manager, plugin, "bench_studies", Path)
    plugin.suites = _call(manager, plugin, "bench_suites", Path)
    plugin.problems += _silent(manager, module, plugin)


def look_at_ours(plugin: Plugin) -> None:
    """Record what a built-in plugin offers, if it is one: a name in metadata is whatever its author wrote."""
    if plugin.origin.partition(":")[0].partition(".")[0] in PACKAGES:
        look(plugin)
    else:
        of_ours = f"built-in plugins are in {', '.join(PACKAGES)}"
        plugin.problems.append(f"its metadata has the name {HARNESS}, but {of_ours}; rename its distribution")


def _silent(manager: pluggy.PluginManager, module: Any, plugin: Plugin) -> list[str]:
    """Return which functions of a module are no hooks although their names say so, or why it offers nothing at all."""
    named = [name for name in dir(module) if name.startswith("bench_")]
    unmarked = [name for name in named if manager.parse_hookimpl_opts(module, name) is None]
    if hooks := [name for name in unmarked if name in HOOKS]:
        return [f"{', '.join(hooks)} without @harness.hook, so it is not called"]
    if plugin.problems or plugin.offers or plugin.papers or plugin.studies or plugin.suites:
        return []
    if unmarked:
        return [f"offers nothing: {unmarked[0]} is no hook{suggestions(unmarked[0], HOOKS)}"]
    return [f"offers nothing: {'its hooks return empty lists' if named else 'it has no hook, such as bench_samplers'}"]


def _call(manager: pluggy.PluginManager, plugin: Plugin, hook: str, kind: type) -> list[Any]:
    try:
        with plugin_code(f"{hook} failed"):
            caller = getattr(manager.hook, hook)
            answers = caller() or [None] * len(caller.get_hookimpls())  # pluggy leaves out what returned None
            members, problems = records(hook, answers, kind)
    except BenchError as error:
        members, problems = [], [str(error)]
    plugin.problems += problems
    return members


def check_shadowing() -> None:
    """Raise `PluginError` if this process has imported another module by the name of a built-in package."""
    for package in PACKAGES:
        module = sys.modules.get(package)
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", ()), "a module without a file"]
        path = Path(next(filter(None, places)))
        if module is not None and HOME / package not in path.resolve().parents:
            raise PluginError(
                f"the package {package!r} of {HARNESS} is shadowed by {path}, which this process has imported before; "
                "rename that one, or use harness in another process"
            )


def name_problem(name: str) -> str:
    """Return what is wrong with the name of a plugin, a method or a suite, or "" if it is valid."""
    if NAME.fullmatch(name) and len(name) <= LONGEST:
        return ""
    return f"{name!r:.80} must match {NAME.pattern} and be at most {LONGEST} long"


def records(hook: str, answers: Any, kind: type) -> tuple[list[Any], list[str]]:
    """Return the valid members of a hook's answers, of class `kind` (Info, Method, Path), and all problems found."""
    members: list[Any] = []
    problems: list[str] = []
    for answer in answers:
        if not isinstance(answer, list):
            problems.append(f"{hook} must return a list of {kind.__name__}, not a {type(answer).__name__}")
            continue
        for i, member in enumerate(answer):
            try:
                with plugin_code(f"{hook}, number {i}"):
                    members.append(_record(f"{hook}, number {i}", member, kind))
            except PluginError as error:
                problems.append(str(error))
    return members, problems


def _record(where: str, member: Any, kind: type[Any]) -> Any:
    """Return the member as a plain record of its kind; raise `PluginError` if it is not valid."""
    if not isinstance(member, kind):
        raise PluginError(f"{where} is a {type(member).__name__}, not a {kind.__name__}")
    if kind is Path:
        return Path(str(member))
    values = {name: getattr(member, name) for name in kind.__annotations__ if name != "settings"}
    for name, value in values.items():
        wanted, described = (bool, "true or false") if name in {"baseline", "optimiser"} else (str, "text")
        if type(value) is not wanted:
            raise PluginError(f"{where}: {name} is a {type(value).__name__}, not {described}")
    if problem := name_problem(values["name"]):
        raise PluginError(f"{where}: name {problem}")
    where = f"{where}: {values['name']!r}"
    if kind is Method:
        return Method(**values, settings=_settings(where, member.settings))
    for name in ("target", "law"):
        if (values[name] or name == "target") and not TARGET.fullmatch(values[name]):
            raise PluginError(f"{where}: {name} {values[name]!r:.80} is not 'package.module:Class'")
    return Info(**values)


def _settings(where: str, settings: Any) -> dict[str, object]:
    if not isinstance(settings, dict):
        raise PluginError(f"{where}: settings is a {type(settings).__name__}, not a dict")
    for name, value in settings.items():
        if type(name) is not str or type(value) not in PLAIN:
            raise PluginError(f"{where}: settings: {name!r:.80} = {value!r:.80} is not a value by name")
    return dict(settings)


def entries() -> tuple[list[EntryPoint], dict[str, str]]:
    """Return all entry points of the group "bench", sorted by distribution and name, and why others are unreadable.

    A distribution whose metadata cannot be read does not hide the others.
    """
    unreadable: dict[str, str] = {}
    try:
        points = [*importlib.metadata.entry_points(group=GROUP)]
    except Exception:  # noqa: BLE001 - it stops at the first distribution whose metadata cannot be read
        points, unreadable = _one_by_one()
    origins = {dist: _origin(dist) for dist in {point.dist for point in points}}  # which reads its metadata
    entry_points = [EntryPoint(point.name, point.value, *origins[point.dist]) for point in points]
    return sorted(entry_points, key=lambda entry: (entry.distribution, entry.name)), unreadable


def _one_by_one() -> tuple[list[importlib.metadata.EntryPoint], dict[str, str]]:
    points: list[importlib.metadata.EntryPoint] = []
    unreadable: dict[str, str] = {}
    seen = set()
    for dist in importlib.metadata.distributions():
        name = _origin(dist)[0]
        try:
            of_dist = dist.entry_points.select(group=GROUP)
        except Exception as error:  # noqa: BLE001 - metadata that cannot be read
            unreadable[str(getattr(dist, "_path", name))] = format_error(error)
            continue
        points += [] if name in seen and name != UNKNOWN else of_dist
        seen.add(name)
    return points, unreadable


def _origin(dist: importlib.metadata.Distribution | None) -> tuple[str, str]:
    try:
        return (str(dist.name or UNKNOWN), str(dist.version or "")) if dist else (UNKNOWN, "")
    except Exception:  # noqa: BLE001 - metadata that cannot be read
        return UNKNOWN, ""
