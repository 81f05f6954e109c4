"""The verbs outside the core: checks, nightly suites, reproduction, upkeep, templates, pages of samplers."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this package."""
    return [
        Info("status", "plugins.verbs.status:status", "Show running workers, submitted jobs and their progress."),
        Info("ls", "plugins.verbs.ls:ls", "List samplers, schedules, methods, tasks, reports, suites, runs."),
        Info("show", "plugins.verbs.show:show", "Show one task, sampler, method, schedule or run."),
        Info("plugins", "plugins.verbs.plugins:plugins", "List plugins and their problems."),
        Info("compare", "plugins.verbs.compare:compare", "Compare two samplers, paired by seed."),
        Info("ingest", "plugins.verbs.ingest:ingest", "Update the database from the runs on disk."),
        Info("sql", "plugins.verbs.sql:sql", "Query the results database, read-only."),
        Info("cancel", "plugins.verbs.cancel:cancel", "End jobs that were submitted by a launcher."),
        Info("doctor", "plugins.verbs.doctor:doctor", "Check versions, folders, data sets, plugins and GPU."),
        Info("data", "plugins.verbs.data:app", "List, fetch and verify the data sets that tasks read."),
        Info(
            "reproduce",
            "plugins.verbs.reproduce:reproduce",
            "Run what the papers' tables need and compare with them.",
        ),
        Info("tune", "plugins.verbs.tune:tune", "Search the settings of samplers on tasks, at a declared cost."),
        Info("nightly", "plugins.verbs.nightly:nightly", "Run a suite, write its pages, report what became worse."),
        Info(
            "site",
            "plugins.verbs.site.verb:site",
            "Write pages of all results: leaders, tasks, runs, history.",
        ),
        Info("replay", "plugins.verbs.replay:replay", "Repeat a run and compare bit for bit."),
        Info("rescore", "plugins.verbs.rescore:rescore", "Compute new or changed metrics from the kept draws."),
        Info("score", "plugins.verbs.score:score", "Score draws or predictions that other software made."),
        Info("truth", "plugins.verbs.truth:truth", "Compute the truth of a task by long HMC and store it."),
        Info("gc", "plugins.verbs.gc:gc", "List or delete unreferenced files in the results folder."),
        Info("merge", "plugins.verbs.merge:merge", "Copy the attempts of other results folders into this one."),
        Info("verify", "plugins.verbs.verify:verify", "Check somebody's results: keys, rows, draws, replays."),
        Info("export", "plugins.verbs.export:export", "Write the finished runs as Parquet files, to share them."),
        Info("check", "plugins.verbs.check:check", "Check samplers, schedules and tasks against the laws."),
        Info("new", "plugins.verbs.new:new", "Write a package with a sampler, schedule, task or report."),
        Info("docs", "plugins.verbs.pages.verb:docs", "Write the pages of samplers from their docstrings and laws."),
    ]


@hook
def bench_facts() -> list[Info]:
    """Return the functions that give facts about samplers, the step sizes of runs, and suites."""
    return [
        Info("sampler", "plugins.verbs.pages.facts:facts"),
        Info("run", "plugins.verbs.pages.conventions:facts"),
        Info("suite", "plugins.verbs.suite:facts"),
    ]
