"""What an optimiser or a training loop samples, and at which temperature; docs/temperature.md."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_verbs() -> list[Info]:
    """Return the verb of this feature."""
    return [
        Info("temperature", "plugins.temperature.command:temperature", "Measure what an optimiser or a loop samples."),
    ]
