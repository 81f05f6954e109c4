"""Runs on other machines: processes that outlive the command, Slurm by submitit, Ray; docs/clusters.md."""

from __future__ import annotations

from harness import Info, hook


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
    return [Info("cancel", "plugins.clusters.cancel:cancel", "End jobs that were submitted by a launcher.")]
