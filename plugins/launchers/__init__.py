"""The built-in launchers: processes on this machine, Slurm through submitit, and Ray."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_launchers() -> list[Info]:
    """Return the launchers of this package."""
    return [
        Info("local", "plugins.launchers.local:Local", "processes on this machine that outlive the command"),
        Info("slurm", "plugins.launchers.slurm:Slurm", "job arrays of Slurm, by submitit"),
        Info("ray", "plugins.launchers.ray:Ray", "actors of a Ray cluster, without a shared file system"),
    ]
