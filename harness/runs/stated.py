"""The settings that plugins state: how they are found, and which settings of a run count as stated."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from harness.contracts.hookspecs import StatedSettings
from harness.contracts.offers import HARNESS
from harness.contracts.plugin_errors import plugin_code
from harness.contracts.registry import Offer, Registry, load
from harness.results.ledger.heartbeats import Send
from harness.results.spec import SWEPT, USER
from harness.system.errors import PluginError


def stated_settings(registry: Registry, offers: Iterable[Offer] = ()) -> list[StatedSettings]:
    """Return the settings that plugins state, each with its distribution.

    What cannot be read stops the runs of these offers if it is of one of their distributions; else it is left out.
    """
    needed = frozenset(offer.distribution for offer in offers)
    stated: list[StatedSettings] = []
    for source in registry.offers("settings"):
        try:
            of_source = (_call if source.distribution == HARNESS else _call_in_child)(source, registry, needed)
        except PluginError:
            if source.distribution in {HARNESS, *needed}:
                raise
            continue
        ours = source.distribution == HARNESS  # which serves the papers of other plugins too
        stated += [
            one if ours and one.distribution else replace(one, distribution=source.distribution) for one in of_source
        ]
    return stated


def _call(source: Offer, registry: Registry, needed: Collection[str], *_: Send) -> list[StatedSettings]:
    with plugin_code(f"{source.target} ({source.distribution})"):
        stated: list[StatedSettings] = load(source.target)(registry, needed)
        if not all(isinstance(one, StatedSettings) for one in stated):
            raise TypeError("it did not return a list of harness.tasks.StatedSettings")
    return stated


@functools.cache
def _call_in_child(source: Offer, registry: Registry, needed: frozenset[str]) -> list[StatedSettings]:
    from harness.runs.children import EndedError, plugin_call

    try:
        stated: list[StatedSettings] = plugin_call(f"{__name__}:{_call.__name__}", source, registry, needed)
    except EndedError as error:
        raise PluginError(f"{source.target} ({source.distribution}): {error}") from error
    return stated


def settle(origins: Mapping[str, Mapping[str, Any]], stated: StatedSettings | None) -> dict[str, str]:
    """Return for each setting who chose it.

    `stated` is what is now stated for the run's method, task and protocol. A value that a user set counts as stated if
    it is the stated one. The other values that a user set count as `SWEPT` if they are a point of the declared sweep: a
    run has the same key, whoever asked for it.
    """
    values = stated.values if stated is not None else {}
    kinds = {name: str(origin["provenance"]) for name, origin in origins.items()}
    changed = {name: origins[name]["value"] for name, kind in kinds.items() if kind == USER and name in values}
    for name, value in list(changed.items()):
        if repr(value) == repr(values[name].value):  # 1 == True
            kinds[name] = values[name].provenance
            del changed[name]
    alone = stated is not None and stated.each_alone
    declared = all(repr(value) in map(repr, values[name].swept) for name, value in changed.items())
    if declared and not (alone and len(changed) > 1) and list(kinds.values()).count(USER) == len(changed):
        kinds |= dict.fromkeys(changed, SWEPT)
    return kinds
