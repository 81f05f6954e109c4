"""The built-in reports: tables/ and figures/. They read the store only."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_reports() -> list[Info]:
    """The reports of this package."""
    return [
        Info("coverage", "reports.tables.coverage:Coverage", "modes found, with their masses and spreads"),
        Info("density", "reports.figures.density:Density", "a two-dimensional target and draws, side by side"),
        Info("ess", "reports.tables.ess:EffectiveSize", "effective sample sizes, beside bias and temperature"),
        Info("leaderboard", "reports.tables.leaderboard:Leaderboard", "who is best on each task, and who cannot rank"),
        Info(
            "reproduction",
            "reports.tables.reproduction:ReproductionLedger",
            "the papers' cells and claims, beside ours",
        ),
    ]
