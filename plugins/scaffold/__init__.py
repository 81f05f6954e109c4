"""Packages of plugins, written from templates, and files of classes of a script; docs/tutorial.md, docs/python.md."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_facts() -> list[Info]:
    """Return the function that writes a class of a script or a notebook to a plugin file."""
    return [Info("definition", "plugins.scaffold.definitions:keep")]


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [
        Info("new", "plugins.scaffold.package:new", "Write a package with a sampler, schedule, task or report."),
    ]
