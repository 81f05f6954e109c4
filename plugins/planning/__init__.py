"""What a command would run, and what it would cost; docs/planning.md."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [Info("plan", "plugins.planning.plan:plan", "Show what `run` would do and what it would cost.")]
