"""Packages of plugins, written from templates; docs/tutorial.md."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [
        Info("new", "plugins.scaffold.package:new", "Write a package with a sampler, schedule, task or report."),
    ]
