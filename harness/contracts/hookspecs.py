"""The hooks a plugin may implement. Each returns a list; nothing heavy is imported until a run needs it.

A plugin is a module named by an entry point of the group "bench", with functions marked `@harness.hook`:

    from harness import Info, hook

    @hook
    def bench_samplers() -> list[Info]:
        return [Info("my-sampler", "my_package.my_sampler:MySampler", "what it does, in a line")]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pluggy

GROUP = "bench"
spec = pluggy.HookspecMarker(GROUP)
hook = pluggy.HookimplMarker(GROUP)
"""Marks a function of a plugin as the implementation of the hook of that name, for example `bench_samplers`."""


@dataclass(frozen=True)
class Info:
    """A light record of something that a plugin offers: its name, where it lives, what it is.

    `law`, of samplers only, is "package.module:Class" of its `harness.SamplerLaw`; "" where it has none.
    `fill`, of reports only, is a command whose results the report shows, told to users for whom it is empty.
    `baseline`, of samplers only, says that it is no sampler of the posterior: leaderboards show it without a rank.
    """

    name: str
    target: str
    summary: str = ""
    law: str = ""
    fill: str = ""
    baseline: bool = False


@dataclass(frozen=True)
class Method:
    """A named pairing of a sampler and a schedule: csgld = sgld x cyclical; `schedule` "" leaves it to the command.

    `baseline` is as in `Info`.
    """

    name: str
    sampler: str
    schedule: str
    summary: str = ""
    settings: dict[str, object] = field(default_factory=dict)
    baseline: bool = False


@spec
def bench_samplers() -> list[Info]:
    """Samplers: `target` is a frozen dataclass deriving from `harness.Sampler`."""
    raise NotImplementedError


@spec
def bench_schedules() -> list[Info]:
    """Schedules: `target` is a frozen dataclass deriving from `harness.Schedule`."""
    raise NotImplementedError


@spec
def bench_methods() -> list[Method]:
    """Methods: names for pairings of a sampler and a schedule, with the settings that make the pairing."""
    raise NotImplementedError


@spec
def bench_tasks() -> list[Info]:
    """Tasks: `target` is a frozen dataclass deriving from `harness.Task`."""
    raise NotImplementedError


@spec
def bench_reports() -> list[Info]:
    """Reports: `target` is a class deriving from `harness.Report`."""
    raise NotImplementedError


@spec
def bench_verbs() -> list[Info]:
    """Verbs of the command `bench`: `target` is a function with typer's annotations that returns a `harness.Result`."""
    raise NotImplementedError


@spec
def bench_launchers() -> list[Info]:
    """Launchers, which bring runs to other machines: `target` is a frozen dataclass, a `harness.Launcher`."""
    raise NotImplementedError


@spec
def bench_facts() -> list[Info]:
    """What else to say of plugins. `name` is a kind, `target` a function whose mapping extends what is said of one.

    sampler  called with its offer and its class; `bench show` and its page have the entries
    run      called with its row of the view run_status and the registry; `bench show` has the entries
    suite    called with the path of its file; `bench ls suites` has the entries; raises `UsageError` for a bad file
    """
    raise NotImplementedError


@spec
def bench_papers() -> list[Path]:
    """TOML files with a paper's settings for (method, task, protocol), its reported values and claims."""
    raise NotImplementedError


@spec
def bench_studies() -> list[Path]:
    """JSON files of tuned settings, as `bench tune` writes them, one a study; a file's name is the study's."""
    raise NotImplementedError


@spec
def bench_suites() -> list[Path]:
    """TOML files of run commands for `bench nightly`, one a suite; a file's name is the suite's."""
    raise NotImplementedError
