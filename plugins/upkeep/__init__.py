"""Stored runs: repeated, scored again, cleared of what nothing refers to; docs/upkeep.md."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [
        Info("replay", "plugins.upkeep.replay:replay", "Repeat a run and compare bit for bit."),
        Info("rescore", "plugins.upkeep.rescore:rescore", "Compute new or changed metrics from the kept draws."),
        Info("time", "plugins.upkeep.timing:time_rows", "Measure the seconds a step of each row takes."),
        Info("gc", "plugins.upkeep.garbage:gc", "List or delete unreferenced files in the results folder."),
    ]


@hook
def bench_facts() -> list[Info]:
    """Return the function that says which rows rest on code that is declared equal."""
    return [Info("caveats", "plugins.upkeep.equal_sources:caveats")]
