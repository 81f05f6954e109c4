"""Runs on other machines: processes that outlive the command, Slurm through submitit, and Ray.

A launcher of another package derives from `Launcher`, and has agents call `run_agent`: see docs/clusters.md. A name is
imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness import Info, hook

if TYPE_CHECKING:
    from plugins.clusters.agent import run_agent
    from plugins.clusters.launcher import Exchange, FolderExchange, JobState, Launcher

__all__ = ["Exchange", "FolderExchange", "JobState", "Launcher", "run_agent"]


@hook
def bench_launchers() -> list[Info]:
    """Return the launchers of this package."""
    return [
        Info("local", "plugins.clusters.local:Local", "processes on this machine that outlive the command"),
        Info("slurm", "plugins.clusters.slurm:Slurm", "job arrays of Slurm, by submitit"),
        Info("ray", "plugins.clusters.ray:Ray", "actors of a Ray cluster, without a shared file system"),
    ]


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [Info("cancel", "plugins.clusters.launching:cancel", "End jobs that were submitted by a launcher.")]


@hook
def bench_facts() -> list[Info]:
    """Return the function that makes a command's launcher, and the one that lists the jobs of a results folder."""
    return [
        Info("launcher", "plugins.clusters.launching:of_command"),
        Info("jobs", "plugins.clusters.submitted:states"),
    ]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'plugins.clusters' has no attribute {name!r}")
    from plugins.clusters import agent, launcher

    return getattr(agent if name == "run_agent" else launcher, name)
