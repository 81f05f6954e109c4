"""Settings of samplers, searched at a declared cost, and the study that comes with the project; docs/tuning.md."""

from __future__ import annotations

from pathlib import Path

from harness import Info, hook


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [
        Info("tune", "plugins.tuning.tune:tune", "Search the settings of samplers on tasks, at a declared cost."),
    ]


@hook
def bench_facts() -> list[Info]:
    """Return the function that reads a study."""
    return [Info("study", "plugins.tuning.studies:load")]


@hook
def bench_studies() -> list[Path]:
    """Return the studies of tuned settings that come with the project: `bench run --settings tuned`."""
    return sorted(Path(__file__).parent.glob("*.json"))
