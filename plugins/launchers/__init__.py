"""The built-in launchers: processes of this machine, Slurm by submitit, and Ray."""

from __future__ import annotations

from harness import Info, hook


@hook
def bench_launchers() -> list[Info]:
    """The launchers of this package."""
    return [
        Info("local", "plugins.launchers.local:Local", "processes on this machine that outlive the command"),
        Info("slurm", "plugins.launchers.slurm:Slurm", "job arrays of Slurm, by submitit"),
        Info("ray", "plugins.launchers.ray:Ray", "actors of a Ray cluster, without a shared file system"),
    ]
