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
from harness.contracts.offers import HARNESS, KINDS, UNKNOWN, Offer, Plugin, entries, look
from harness.contracts.parameters import suggestions
from harness.contracts.plugin_errors import plugin_code
from harness.system.errors import PluginError, UsageError

__all__ = ["KINDS", "Offer", "Plugin", "Registry", "load", "registry"]

IMPORT_SECONDS = 30.0
"""Time limit for importing a plugin's module; one that imports torch takes 1 to 4 s, up to 20 s on a busy machine."""


class Registry:
    """All plugins, by entry point; `files` are the one-off plugin files given by --plugin."""

    laws: ClassVar[dict[str, str]] = {}
    """The target of the law by the target of its sampler, for the samplers of all registries of this process."""

    def __init__(self, files: Iterable[str] = ()) -> None:
        points, unreadable = entries()
        self.plugins = [Plugin(e.name, e.distribution, e.version, e.value) for e in points]
        self.plugins += [_of_file(Path(name)) for name in files]
        for plugin in self.plugins:
            if plugin.distribution == HARNESS:
                look(plugin)
        described([plugin for plugin in self.plugins if plugin.distribution != HARNESS])
        self.plugins += [
            Plugin(Path(path).name, UNKNOWN, "", path, problems=[f"its entry points cannot be read: {why}"])
            for path, why in unreadable.items()
        ]
        infos = [offer.info for plugin in self.plugins for offer in plugin.offers if offer.kind == "samplers"]
        self.laws.update({info.target: info.law for info in infos if isinstance(info, Info) and info.law})
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

    def names(self, kind: str) -> list[str]:
        """Return the names of everything of a kind; "suites" is allowed too."""
        if kind == "suites":
            return [path.stem for _, path in self.suites()]
        return [offer.name for offer in self.offers(kind)]

    def suites(self) -> list[tuple[Plugin, Path]]:
        """Return the files of all suites, each with its plugin, sorted by name."""
        files = [(plugin, path) for plugin in self.plugins for path in plugin.suites]
        return sorted(files, key=lambda pair: (pair[1].stem, pair[0].distribution))

    def find(self, kind: str, name: str, prefer: str = "") -> Offer:
        """Return the offer of that name ("name" or "distribution:name"); raise `UsageError` with near matches.

        If several plugins offer it, return the one of the distribution `prefer`.
        """
        distribution, _, bare = name.rpartition(":")
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
        raise UsageError(f"unknown {kind[:-1]} {name!r:.80}{suggestions(bare, (o.name for o in self.offers(kind)))}")

    def target(self, kind: str, name: str) -> str:
        """Return the target of the offer of that name; raise what `find` raises."""
        return self.find(kind, name).target

    def method(self, name: str) -> Offer:
        """Return a method by name; a plain sampler's name stands for the sampler with whatever schedule is set."""
        bare = name.rpartition(":")[2]
        if any(offer.name == bare for offer in self.offers("methods")):
            return self.find("methods", name)
        if not any(offer.name == bare for offer in self.offers("samplers")):
            known = [o.name for kind in ("samplers", "methods") for o in self.offers(kind)]
            raise UsageError(f"unknown sampler {name!r:.80}{suggestions(bare, known)}")
        sampler = self.find("samplers", name)
        plain = Method(name=sampler.name, sampler=sampler.name, schedule="", summary=sampler.info.summary)
        return replace(sampler, info=plain, kind="methods")

    def _mark_clashes(self) -> None:
        for kind in KINDS:
            seen: dict[str, list[Plugin]] = {}
            for plugin in self.plugins:
                for offer in plugin.offers:
                    if offer.kind == kind:
                        seen.setdefault(offer.name, []).append(plugin)
            for name, owners in seen.items():
                ours = kind == "verbs" and any(owner.distribution == HARNESS for owner in owners)  # it is used
                for owner in owners if len(owners) > 1 and not ours else []:
                    others = ", ".join(
                        sorted({p.distribution for p in owners if p is not owner}) or [owner.distribution]
                    )
                    owner.problems.append(
                        f"{kind[:-1]} {name!r} clashes with the one of {others}; ask for {owner.distribution}:{name}"
                    )


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
    waiting = list(plugins)
    while waiting:
        reason = "the process ended without an answer"
        for plugin, answer in zip(list(waiting), plugin_process.answers(waiting, IMPORT_SECONDS), strict=False):
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
