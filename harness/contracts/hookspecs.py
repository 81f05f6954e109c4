"""The hooks that a plugin may implement. Each returns a list; nothing heavy is imported until a run needs it.

A plugin is a module named by an entry point of the group "bench", with functions marked `@harness.hook`:

    from harness import Info, hook

    @hook
    def bench_samplers() -> list[Info]:
        return [Info("my-sampler", "my_package.my_sampler:MySampler", "what it does, in a line")]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pluggy

GROUP = "bench"
spec = pluggy.HookspecMarker(GROUP)
hook = pluggy.HookimplMarker(GROUP)
"""Marks a function of a plugin as the implementation of the hook of that name, for example `bench_samplers`."""
DEFAULT_SCHEDULE = "constant"
"""The schedule where none is named."""


@dataclass(frozen=True)
class Info:
    """A light record of something that a plugin offers: its name, where its class or function is, and a summary.

    `law` (samplers only) is "package.module:Class" of its `plugins.checking.SamplerLaw`; "" if it has none.
    `fill` (reports only) is a command whose results the report shows; users see it if the report is empty.
    `baseline` (samplers only) marks what is not a sampler of the posterior: leaderboards show it without a rank.
    `optimiser` (samplers only) marks what draws no noise: rankings say so beside its name.
    `group` (tasks only) says what a task is for: `--task GROUP` stands for all tasks of a group.
    """

    name: str
    target: str
    summary: str = ""
    law: str = ""
    fill: str = ""
    baseline: bool = False
    optimiser: bool = False
    group: str = ""


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


@dataclass(frozen=True)
class StatedValue:
    """A value of a setting that a source states: a paper, the authors' code, a benchmark.

    provenance  paper; code (the authors'); inferred (follows from either); ours (cannot be had from either)
    source      where it is stated, or the reason for it
    swept       the values of its declared sweep, this one included; () without a sweep
    """

    value: Any
    provenance: str
    source: str = ""
    swept: tuple[Any, ...] = ()


@dataclass(frozen=True)
class StatedSettings:
    """The settings of a method on a task under a protocol, by dotted name; "schedule" names the schedule.

    stated_by     the source's name: a paper's id
    each_alone    whether the settings are swept one after the other, not in every combination
    distribution  whose plugin states them; "" for the one whose hook serves them
    """

    method: str
    task: str
    protocol: str
    stated_by: str
    values: Mapping[str, StatedValue]
    each_alone: bool = False
    distribution: str = ""


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
    """Tasks: `target` is a frozen dataclass deriving from `harness.tasks.Task`."""
    raise NotImplementedError


@spec
def bench_reports() -> list[Info]:
    """Reports: `target` is a class deriving from `harness.reports.Report`."""
    raise NotImplementedError


@spec
def bench_verbs() -> list[Info]:
    """Verbs of the command `bench`: `target` is a function with typer's annotations that returns a `harness.Result`."""
    raise NotImplementedError


@spec
def bench_launchers() -> list[Info]:
    """Launchers, which bring runs to other machines: `target` is a frozen dataclass derived from
    `plugins.clusters.Launcher`.
    """
    raise NotImplementedError


@spec
def bench_facts() -> list[Info]:
    """Functions that others call: `name` says for what, and `target` is the function.

    sampler    called with its offer and its class; returns entries for `bench show` and the sampler's page
    run        called with its row of the view run_status and the registry; returns entries for `bench show`
    suite      called with the path of its file; returns entries for `bench ls suites`; `UsageError` for a bad file
    launcher   called with the `Bench` of a command with --launcher; returns its `application.launch.Launcher`
    store      called with a results folder; returns its store if the results have another form, such as Parquet files,
               else None
    study      called with the registry, a results folder and a name; returns the study of tuned settings of that name
    moved      called with a task and samplers; returns the task with its problems moved (ours only; `run.moved`)
    samplers   called with a `Bench` and `RunRequest`s; returns them with names instead of groups of samplers, `all`
    arviz      called with the store, rows of the view `result` of one group, the registry, a number of test rows, and
               a function that reads the draws of a row; returns an xarray DataTree
    definition called with a class, "samplers", "schedules" or "tasks", and a results folder; writes the class to a
               plugin file there, and returns this file and the name of the offer
    jobs       called with a `Bench`; returns a row of `bench status` for each job of its folder, and error messages
    reference  called without arguments; returns lists of BibTeX entries by what they are the source of, such as
               "sampler sgld", for `bench cite`
    paper      called with the path of a paper's file; nothing shows its entries; `UsageError` for a bad file
    caveats    called with a store and the registry; returns {group key: {name of a caveat: what it says of the row}}
    peers      called without arguments; returns the names of the samplers that run beside a row on seeds of its own
    """
    raise NotImplementedError


@spec
def bench_settings() -> list[Info]:
    """Settings of methods on tasks: `target` is a function that returns a list of `harness.tasks.StatedSettings`.

    It is called with the registry and a set of names of distributions. What one of these provides must be read, or the
    function raises a `PluginError`; what others provide is left out if it cannot be read.
    """
    raise NotImplementedError


@spec
def bench_papers() -> list[Path]:
    """TOML files of papers: settings for (method, task, protocol), reported values and claims."""
    raise NotImplementedError


@spec
def bench_studies() -> list[Path]:
    """JSON files of tuned settings, as `bench tune` writes them, one for each study; the file's name is the study's."""
    raise NotImplementedError


@spec
def bench_suites() -> list[Path]:
    """TOML files of run commands for `bench nightly`, one for each suite; the file's name is the suite's."""
    raise NotImplementedError
