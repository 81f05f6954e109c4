"""Reports of the results, as text and as files; docs/reports.md."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [Info("report", "plugins.reporting.report:report", "Make a report; `bench ls reports` lists them.")]
