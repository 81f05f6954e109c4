"""The hooks that a plugin may implement. Each returns a list; nothing heavy is imported until a run needs it.

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
    """A light record of something that a plugin offers: its name, where its class or function is, and a summary.

    `law` (samplers only) is "package.module:Class" of its `harness.SamplerLaw`; "" if it has none.
    `fill` (reports only) is a command whose results the report shows; users see it if the report is empty.
    `baseline` (samplers only) marks what is not a sampler of the posterior: leaderboards show it without a rank.
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
    """Launchers, which bring runs to other machines: `target` is a frozen dataclass derived from `harness.Launcher`."""
    raise NotImplementedError


@spec
def bench_facts() -> list[Info]:
    """Functions that add facts about plugins: `name` is a kind, and `target` a function that returns a mapping.

    sampler    called with its offer and its class; `bench show` and the sampler's page show the entries
    run        called with its row of the view run_status and the registry; `bench show` shows the entries
    suite      called with the path of its file; `bench ls suites` shows the entries; raises `UsageError` for a bad file
    reference  called without arguments; lists of BibTeX entries by what they are the source of, such as "sampler sgld";
               `bench cite` prints them
    """
    raise NotImplementedError


@spec
def bench_papers() -> list[Path]:
    """TOML files with a paper's settings for (method, task, protocol), its reported values and its claims."""
    raise NotImplementedError


@spec
def bench_studies() -> list[Path]:
    """JSON files of tuned settings, as `bench tune` writes them, one for each study; the file's name is the study's."""
    raise NotImplementedError


@spec
def bench_suites() -> list[Path]:
    """TOML files of run commands for `bench nightly`, one for each suite; the file's name is the suite's."""
    raise NotImplementedError
