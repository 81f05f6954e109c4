"""The pages of samplers, from their docstrings, their laws and their facts; docs/sampler-pages.md."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [
        Info("docs", "plugins.pages.verb:docs", "Write the pages of samplers from their docstrings and laws."),
    ]


@hook
def bench_facts() -> list[Info]:
    """Return the functions that give facts about samplers and about the step sizes of runs."""
    return [
        Info("sampler", "plugins.pages.facts:facts"),
        Info("run", "plugins.pages.conventions:facts"),
    ]
