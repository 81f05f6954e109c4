"""Truths of tasks, computed by long HMC; docs/truths.md."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [
        Info("truth", "plugins.truths.truth:truth", "Compute the truth of a task by long HMC and store it."),
    ]
