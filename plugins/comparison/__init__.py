"""Two samplers compared, paired by seed; docs/comparing.md."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_facts() -> list[Info]:
    """Return what `Results.compare` does."""
    return [Info("compare", "plugins.comparison.compare:compared")]


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [
        Info("compare", "plugins.comparison.compare:compare", "Compare two samplers, paired by seed."),
    ]
