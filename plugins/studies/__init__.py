"""Studies of tuned settings that come with the project: `bench run --settings tuned`. `bench tune` writes them."""

from __future__ import annotations

from pathlib import Path

from harness import hook


@hook
def bench_studies() -> list[Path]:
    """The studies of this package."""
    return sorted(Path(__file__).parent.glob("*.json"))
