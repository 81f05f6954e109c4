"""Suites, what changed since earlier nights, and the pages of results; docs/nightly.md, docs/pages.md.

Suites: what to run unattended, as data. One TOML file a suite; its name is the suite's.

    summary = "..."                  what it is for, in a line
    reports = ["leaderboard"]        the reports to publish; all without it
    season = 1                       decides which seeds a number of seeds means; all suites of a season share them

    [[run]]                          a run command; its entries mean what the options of `bench run` mean
    samplers = ["sgld", "csgld"]     or "all": every sampler and method that `study` has settings for, on each task
    tasks = ["mixture25@csgmcmc"]
    seeds = 5                        those of the season; or "0-9", or [0, 3, 7]; this and all below may be left out
    chains = 4
    budget = "quick"
    schedule = "polynomial"
    settings = { sampler.a = 5, task.batch = 64 }
    study = "tuned"                  settings that `bench tune` found
    sweep = { schedule.step_size = [0.01, 0.03] }

What `bench nightly` takes from the command line, and not from here, is the machine's: workers and devices.
"""

from __future__ import annotations

from pathlib import Path

from harness import Info, hook


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [
        Info("nightly", "plugins.nights.nightly:nightly", "Run a suite, write its pages, report what became worse."),
        Info("site", "plugins.nights.site.build:site", "Write pages of all results: leaders, tasks, runs, history."),
    ]


@hook
def bench_suites() -> list[Path]:
    """Return the suites that come with the project."""
    return sorted((Path(__file__).parent / "suites").glob("*.toml"))


@hook
def bench_facts() -> list[Info]:
    """Return the functions that give facts about suites, and about rows that joined one late."""
    return [Info("suite", "plugins.nights.suite:facts"), Info("caveats", "plugins.nights.late:caveats")]
