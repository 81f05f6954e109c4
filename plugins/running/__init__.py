"""Runs: executed, or planned with their cost; docs/commands.md, docs/planning.md."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [
        Info("run", "plugins.running.run:run", "Run samplers on tasks."),
        Info("plan", "plugins.running.plan:plan", "Show what `run` would do and what it would cost."),
    ]


@hook
def bench_facts() -> list[Info]:
    """Return the functions that name groups of samplers, move a task's problems and find unfinished runs."""
    return [
        Info("samplers", "plugins.running.groups:named"),
        Info("moved", "plugins.running.moved:moved"),
        Info("caveats", "plugins.running.unfinished:caveats"),
    ]
