"""Samplers compared on a torch module and data of the user, in one call; docs/my-model.md."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_facts() -> list[Info]:
    """Return what `Bench.compare_on` does."""
    return [Info("compare-on", "plugins.modelling.compare_on:compare_on")]


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [
        Info("compare-on", "plugins.modelling.command:command", "Compare samplers on a model and data of your own."),
    ]
