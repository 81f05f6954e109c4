"""A launcher that takes jobs and does nothing with them: what remains is the time of planning and submitting."""

from __future__ import annotations

from dataclasses import dataclass

from harness import Info, hook, param
from plugins.clusters import JobState, Launcher


@hook
def bench_launchers():
    """The launcher of this file."""
    return [Info("none", "no_launcher:Nothing", "takes jobs and does nothing with them")]


@dataclass(frozen=True, kw_only=True)
class Nothing(Launcher):
    """All jobs wait for ever."""

    jobs: int = param(500, "[1, 1000]", "most jobs that a command is cut into")

    def submit(self, folders):
        """Names without jobs."""
        return [f"1_{i}" for i in range(len(folders))]

    def states(self, names):
        """All wait."""
        return {name: JobState("queued", why="Priority") for name in names}

    def cancel(self, names):
        """Nothing to end."""
