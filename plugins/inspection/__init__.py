"""Listing and looking up: plugins, data sets, runs and their state, and the database; docs/inspection.md."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [
        Info("status", "plugins.inspection.status:status", "Show running workers, submitted jobs and their progress."),
        Info("ls", "plugins.inspection.ls:ls", "List samplers, schedules, tasks, reports, suites, runs."),
        Info("show", "plugins.inspection.show:show", "Show one task, sampler, method, schedule or run."),
        Info("plugins", "plugins.inspection.plugins:plugins", "List plugins and their problems."),
        Info("ingest", "plugins.inspection.ingest:ingest", "Update the database from the runs on disk."),
        Info("sql", "plugins.inspection.sql:sql", "Query the results database, read-only."),
        Info("doctor", "plugins.inspection.doctor:doctor", "Check versions, folders, data sets, plugins and GPU."),
        Info("data", "plugins.inspection.data:app", "List, fetch and verify the data sets that tasks read."),
    ]
