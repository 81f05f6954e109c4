"""The registry of plugins: finds them, imports what they offer when it is needed, and isolates broken ones.

A broken plugin is a row with its reason.

Only the built-in plugins are imported in this process. `described` imports all others in a separate process.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from harness.contracts import plugin_process
from harness.contracts.hookspecs import Info, Method
from harness.contracts.offers import HARNESS, KINDS, UNKNOWN, Offer, Plugin, check_shadowing, entries, look_at_ours
from harness.contracts.parameters import letters, spelled, unknown
from harness.contracts.plugin_errors import plugin_code
from harness.system.errors import BenchError, PluginError, UsageError
from harness.system.text import seconds_set

__all__ = ["KINDS", "Offer", "Plugin", "Registry", "load", "registry"]

IMPORT_SECONDS, MOST_SECONDS = 30.0, 1e9
"""Time limit for importing a plugin's module, and the longest that the system has timers for; `BENCH_IMPORT_SECONDS`
sets it. A module that imports torch takes 1 to 4 s, up to 20 s on a busy machine.
"""


class Registry:
    """All plugins, by entry point, and the files given by --plugin; `left_out`: what is left out of which, and why."""

    laws: ClassVar[dict[str, str]] = {}
    """The target of the law by the target of its sampler, for the samplers of all registries of this process."""

    spelled = staticmethod(spelled)

    def __init__(self, files: Iterable[str] = ()) -> None:
        check_shadowing()
        points, unreadable = entries()
        self.plugins = [Plugin(e.name, e.distribution, e.version, e.value) for e in points]
        self.plugins += _of_files(files)
        for plugin in self.plugins:
            if plugin.distribution == HARNESS:
                look_at_ours(plugin)
        described([plugin for plugin in self.plugins if plugin.distribution != HARNESS])
        self.plugins += [
            Plugin(Path(path).name, UNKNOWN, "", path, problems=[f"its entry points cannot be read: {why}"])
            for path, why in unreadable.items()
        ]
        self._reserve()
        samplers = self.offers("samplers")
        ours = {offer.target for offer in samplers if offer.distribution == HARNESS}
        named = [o.info for o in samplers if o.distribution == HARNESS or o.target not in ours]
        self.laws.update({info.target: info.law for info in named if isinstance(info, Info) and info.law})
        self.left_out = [f"{p.name} ({p.distribution}): {p.problems[0]}" for p in self.plugins if p.problems]
        self._mark_clashes()

    @property
    def distributions(self) -> tuple[str, ...]:
        """The names of the distributions whose plugins are installed, sorted."""
        return tuple(sorted({plugin.distribution for plugin in self.plugins if plugin.packaged}))

    def offers(self, kind: str) -> list[Offer]:
        """Return everything of a kind ("samplers", ...) that can be used, sorted by name."""
        offers = [offer for plugin in self.plugins for offer in plugin.offers if offer.kind == kind]
        return sorted(offers, key=lambda offer: (offer.name, offer.distribution))

    def facts(self, kind: str) -> list[Callable[..., Any]]:
        """Return the functions of the hook `bench_facts` for a kind."""
        return [load(o.target) for o in self.offers("facts") if o.name == kind]

    def built_in(self, fact: str) -> Callable[..., Any]:
        """Return our own function of the hook `bench_facts` for a kind, whatever other plugins offer."""
        return next(load(o.target) for o in self.offers("facts") if (o.name, o.distribution) == (fact, HARNESS))

    def names(self, kind: str) -> list[str]:
        """Return the names of everything of a kind; "suites" is allowed too."""
        if kind == "suites":
            return [path.stem for _, path in self.suites()]
        return [offer.name for offer in self.offers(kind)]

    def tasks(self, asked: Iterable[str]) -> list[str]:
        """Return tasks, each NAME or NAME@PROTOCOL, with the members of a group in place of its name."""
        groups, named = self.task_groups(), []
        for name, at, protocol in (one.partition("@") for one in asked):
            group = [] if name in self.names("tasks") else groups.get(spelled(name, groups), [])
            named += [f"{member}{at}{protocol}" for member in group or [name]]
        return named

    def task_groups(self) -> dict[str, list[str]]:
        """Return the names of the tasks of each group; no plugin adds a task to a group of ours."""
        groups: dict[str, list[str]] = {}
        ours = {getattr(o.info, "group", "") for o in self.offers("tasks") if o.distribution == HARNESS} | {""}
        for offer in self.offers("tasks"):
            group = getattr(offer.info, "group", "")
            if offer.distribution == HARNESS or group not in ours:
                groups.setdefault(group, []).append(offer.name)
        groups.pop("", None)
        return groups

    def suites(self) -> list[tuple[Plugin, Path]]:
        """Return the files of all suites, each with its plugin, sorted by name."""
        files = [(plugin, path) for plugin in self.plugins for path in plugin.suites]
        return sorted(files, key=lambda pair: (pair[1].stem, pair[0].distribution))

    def find(self, kind: str, name: str, prefer: str = "") -> Offer:
        """Return the offer of that name ("name" or "distribution:name"); raise what `unknown` returns.

        If several plugins offer it, return the one of the distribution `prefer`. Case and hyphens do not matter.
        """
        distribution, _, bare = name.rpartition(":")
        known = self.names(kind)
        bare = spelled(bare, known)
        matches = [o for o in self.offers(kind) if o.name == bare and distribution in ("", o.distribution)]
        preferred = [offer for offer in matches if offer.distribution == prefer]
        matches = preferred or matches
        if len(matches) == 1:
            return matches[0]
        if matches and len({offer.distribution for offer in matches}) == 1:
            raise UsageError(f"{kind[:-1]} {name!r} is offered twice by {matches[0].distribution}; one must be renamed")
        if matches:
            choices = ", ".join(f"{offer.distribution}:{offer.name}" for offer in matches)
            raise UsageError(f"{kind[:-1]} {name!r} is offered by several plugins; say which: {choices}")
        raise self.unknown(f"unknown {kind[:-1]}", name, [*known, *(self.task_groups() if kind == "tasks" else [])])

    def unknown(self, what: str, name: str, known: Iterable[str]) -> BenchError:
        """Return the error about a name that nothing has, with near matches. Each plugin with a problem is named."""
        error = unknown(what, name, known)
        left_out = "; ".join(self.left_out)
        return PluginError(f"{error}; left out of plugins: {left_out}") if left_out else error

    def target(self, kind: str, name: str) -> str:
        """Return the target of the offer of that name; raise what `find` raises."""
        return self.find(kind, name).target

    def method(self, name: str) -> Offer:
        """Return a method by name; a plain sampler's name stands for the sampler with whatever schedule is set."""
        methods, samplers = self.names("methods"), self.names("samplers")
        distribution, _, bare = name.rpartition(":")
        bare = spelled(bare, {*methods, *samplers})
        offers = [o for kind in ("methods", "samplers") for o in self.offers(kind) if o.name == bare]
        named = [offer for offer in offers if distribution in ("", offer.distribution)]
        if not named:
            raise self.unknown("unknown sampler", name, {*methods, *samplers})
        if len({offer.kind for offer in named}) == 2:
            choices = " or ".join(f"{offer.distribution}:{bare}" for offer in named)
            whose = " and ".join(f"a {offer.kind[:-1]} of {offer.distribution}" for offer in named)
            raise UsageError(f"{name!r} is {whose}; say which: {choices}, or one must be renamed")
        if named[0].kind == "methods":
            return self.find("methods", name)
        sampler = self.find("samplers", name)
        plain = Method(name=sampler.name, sampler=sampler.name, schedule="", summary=sampler.info.summary)
        return replace(sampler, info=plain, kind="methods")

    def sampler(self, method: Offer) -> Offer:
        """Return the sampler of a method; raise `PluginError` if there is none, or no schedule, of the names it has."""
        info = method.info
        assert isinstance(info, Method)
        try:
            sampler = self.find("samplers", info.sampler, prefer=method.distribution)
            if info.schedule:
                self.find("schedules", info.schedule, prefer=sampler.distribution)
        except UsageError as error:
            raise PluginError(f"method {method.name} ({method.distribution}): {error}") from error
        return sampler

    def _reserve(self) -> None:
        """Leave out what has the name of something built in, of the same namespace, whatever its case and hyphens.

        Samplers and methods share a namespace; the names of our groups of tasks are reserved too.
        """
        offers = [o for p in self.plugins if p.distribution == HARNESS for o in p.offers if o.kind in KINDS]
        ours = {_namespace(offer): offer.kind[:-1] for offer in offers}
        ours |= {("tasks", letters(o.info.group)): "group" for o in offers if isinstance(o.info, Info) and o.info.group}
        for plugin in self.plugins:
            if plugin.distribution == HARNESS:
                continue
            for offer in [offer for offer in plugin.offers if _namespace(offer) in ours]:
                plugin.offers.remove(offer)
                of_ours = f"a {ours[_namespace(offer)]} of {HARNESS}"
                problem = f"{offer.kind[:-1]} {offer.name!r} has the name of {of_ours}, which is reserved; rename it"
                if not plugin.packaged:
                    raise PluginError(f"--plugin {plugin.origin}: {problem}")
                plugin.problems.append(problem)

    def _mark_clashes(self) -> None:
        for kind in KINDS:
            seen: dict[str, list[Plugin]] = {}
            for plugin in self.plugins:
                for offer in plugin.offers:
                    if offer.kind == kind:
                        seen.setdefault(offer.name, []).append(plugin)
            for name, owners in seen.items():
                for owner in owners if len(owners) > 1 else []:
                    others = ", ".join(
                        sorted({p.distribution for p in owners if p is not owner}) or [owner.distribution]
                    )
                    owner.problems.append(
                        f"{kind[:-1]} {name!r} clashes with the one of {others}; ask for {owner.distribution}:{name}"
                    )


def _namespace(offer: Offer) -> tuple[str, str]:
    return "samplers" if offer.kind == "methods" else offer.kind, letters(offer.name)


def _of_files(names: Iterable[str]) -> list[Plugin]:
    """Return the plugins of files, each once; raise `UsageError` if one is not usable."""
    plugins: dict[str, Plugin] = {}
    for path in map(Path, names):
        plugin = _of_file(path)
        if Path(plugins.setdefault(plugin.name, plugin).origin).resolve() != path.resolve():
            raise UsageError(f"--plugin {path}: its module has the name of {plugins[plugin.name].origin}; rename one")
    return [*plugins.values()]


def _of_file(path: Path) -> Plugin:
    """Return the plugin of a file and make it importable by name; raise `UsageError` if the file is not usable."""
    name = path.stem.replace("-", "_")
    if not path.is_file() or path.suffix != ".py":
        raise UsageError(f"--plugin {path}: no such Python file")
    if not name.isidentifier():
        raise UsageError(f"--plugin {path}: {name!r} is not a valid module name; rename the file")
    plugin_process.FILES.pop(name, None)
    known = sys.modules.get(name)
    there = known.__spec__ if known is not None else importlib.util.find_spec(name)
    other = Path(there.origin) if there is not None and there.origin is not None else path
    if not other.is_file() or other.read_bytes() != path.read_bytes():
        raise UsageError(f"--plugin {path}: a module named {name!r} already exists; rename the file")
    plugin_process.add_file(path)
    return Plugin(name=name, distribution=name, version="", origin=str(path), packaged=False)


def described(plugins: Sequence[Plugin]) -> None:
    """Record what external plugins offer. One process imports all of them; if it ends early, a new one continues."""
    seconds, waiting = min(seconds_set(plugin_process.LIMIT, IMPORT_SECONDS), MOST_SECONDS), list(plugins)
    while waiting:
        reason = "the process ended without an answer"
        for plugin, answer in zip(list(waiting), plugin_process.answers(waiting, seconds), strict=False):
            if isinstance(answer, str):
                reason = answer
                break
            vars(plugin).update(vars(answer))
            waiting.remove(plugin)
        else:
            continue
        waiting.pop(0).problems.append(f"does not import: {reason}")
    for plugin in plugins:
        if not (plugin.packaged or plugin.imported):
            raise PluginError(f"--plugin {plugin.origin}: {plugin.problems[0]}")


@functools.cache
def registry(files: tuple[str, ...] = ()) -> Registry:
    """Return the registry of this process."""
    return Registry(files)


def load(target: str) -> Any:
    """Import and return the object that "package.module:Class" names."""
    module, _, attribute = target.partition(":")
    try:
        with plugin_code(f"{target} does not load"):
            return getattr(importlib.import_module(module), attribute)
    except UsageError as error:  # raised by a declaration in the module
        raise PluginError(f"{target} does not load: {error}") from error


def load_plugin(kind: str, name: str) -> Any:
    """Return the class of a plugin by its name: `load_plugin("samplers", "hmc")`."""
    info = registry().find(kind, name).info
    return load(getattr(info, "target", ""))
